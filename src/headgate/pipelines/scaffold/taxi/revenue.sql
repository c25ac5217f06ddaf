SELECT day, pickup_zone, count(*) AS trips, round(sum(total), 2) AS revenue, round(avg(minutes), 1) AS minutes
FROM df
GROUP BY day, pickup_zone
