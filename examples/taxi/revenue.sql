SELECT pickup_date, borough, count(*) AS trips, round(sum(total_amount), 2) AS revenue, round(avg(minutes), 1) AS minutes
FROM df
LEFT JOIN places ON PULocationID = LocationID
GROUP BY pickup_date, borough
