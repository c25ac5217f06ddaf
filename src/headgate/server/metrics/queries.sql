-- name: list_metrics
-- What was measured of a dataset since a time and before a place, newest first.
SELECT m.measured_at, m.run_id, m.direction, m.row_count, m.byte_size, m.file_count, m.partition_count,
       m.partition_key, m.columns, m.verdicts, m.anomalous, m.job_id, j.namespace AS job_namespace, j.name AS job_name
  FROM dataset_metrics m
  LEFT JOIN jobs j ON j.organization_id = $1 AND j.id = m.job_id
 WHERE m.organization_id = $1
   AND m.dataset_id = $2
   AND m.measured_at >= $3
   AND (m.measured_at, m.run_id, m.direction, m.partition_key)
         < (coalesce($4::timestamptz, 'infinity'), $5::uuid, $6::text, $7::text)
   AND ($8::text IS NULL OR m.direction = $8)
   AND ($9::text IS NULL OR m.partition_key = $9)
 ORDER BY m.measured_at DESC, m.run_id DESC, m.direction DESC, m.partition_key DESC
 LIMIT $10;

-- name: find_latest
-- When the dataset was last measured, in whatever year.
SELECT m.measured_at
  FROM dataset_metrics m
 WHERE m.organization_id = $1
   AND m.dataset_id = $2
   AND ($3::text IS NULL OR m.direction = $3)
   AND ($4::text IS NULL OR m.partition_key = $4)
 ORDER BY m.measured_at DESC
 LIMIT 1;

-- name: summarize_metrics
-- One figure over what was measured in a window, by direction; of very many measurements, over the latest 100,000.
SELECT p.direction,
       count(*) AS count,
       avg(p.value::double precision) AS mean,
       stddev_samp(p.value::double precision) AS stddev,
       min(p.value) AS min,
       max(p.value) AS max,
       percentile_cont(0.05) WITHIN GROUP (ORDER BY p.value) AS p5,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY p.value) AS p95,
       (array_agg(p.value ORDER BY p.measured_at DESC))[1] AS latest
  FROM (SELECT m.direction, m.measured_at, f.value
          FROM dataset_metrics m
         CROSS JOIN LATERAL (SELECT CASE $7::text
                                      WHEN 'row_count' THEN m.row_count
                                      WHEN 'byte_size' THEN m.byte_size
                                      WHEN 'file_count' THEN m.file_count
                                    END AS value) f
         WHERE m.organization_id = $1
           AND m.dataset_id = $2
           AND m.measured_at >= $3
           AND m.measured_at < coalesce($4::timestamptz, 'infinity')
           AND ($5::text IS NULL OR m.direction = $5)
           AND ($6::text IS NULL OR m.partition_key = $6)
           AND f.value IS NOT NULL
         ORDER BY m.measured_at DESC
         LIMIT 100000) p
 GROUP BY p.direction;

-- name: summarize_durations
-- Figures over how long the completed runs that wrote a dataset took, in milliseconds; over the latest 100,000 a job.
SELECT count(*) AS count,
       avg(d.value::double precision) AS mean,
       stddev_samp(d.value::double precision) AS stddev,
       min(d.value) AS min,
       max(d.value) AS max,
       percentile_cont(0.05) WITHIN GROUP (ORDER BY d.value) AS p5,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY d.value) AS p95,
       (array_agg(d.value ORDER BY d.started_at DESC))[1] AS latest
  FROM job_datasets h
 CROSS JOIN LATERAL (SELECT r.started_at,
                            round(extract(epoch FROM greatest(r.ended_at - r.started_at, interval '0')) * 1000)::bigint
                              AS value
                       FROM job_runs r
                      WHERE r.organization_id = $1
                        AND r.job_id = h.job_id
                        AND r.started_at >= $3
                        AND r.started_at < coalesce($4::timestamptz, 'infinity')
                        AND r.state = 'COMPLETE'
                        AND (r.start_at IS NOT NULL OR r.ended_at > r.started_at)
                        AND NOT r.is_test
                        AND $2 = ANY (r.output_ids)
                        AND ($5::text IS NULL
                          OR EXISTS (SELECT
                                       FROM dataset_metrics m
                                      WHERE m.organization_id = $1
                                        AND m.dataset_id = $2
                                        AND m.measured_at BETWEEN r.started_at AND r.last_event_at
                                        AND m.run_id = r.run_id
                                        AND m.partition_key = $5))
                      ORDER BY r.started_at DESC
                      LIMIT 100000) d
 WHERE h.organization_id = $1
   AND h.dataset_id = $2
   AND h.role = 'output';

-- name: list_crowded
-- The next datasets in order of their ids, and whether they have more measurements than a number.
SELECT d.id,
       -- Ordered, so that the index is read: one dataset may have most of the rows, and the others none.
       EXISTS (SELECT
                 FROM dataset_metrics m
                WHERE m.organization_id = $1
                  AND m.dataset_id = d.id
                ORDER BY m.measured_at DESC
               OFFSET $4
                LIMIT 1) AS is_crowded
  FROM (SELECT x.id
          FROM datasets x
         WHERE x.organization_id = $1
           AND x.id > $2
         ORDER BY x.id
         LIMIT $3) d
 ORDER BY d.id;

-- name: delete_old_metrics
-- Removes a batch of what was measured of a dataset, but for the latest few of each direction and partition.
DELETE FROM dataset_metrics m
 USING (SELECT o.measured_at, o.run_id, o.direction, o.partition_key
          FROM (SELECT x.measured_at, x.run_id, x.direction, x.partition_key,
                       row_number() OVER (PARTITION BY x.direction, x.partition_key
                                              ORDER BY x.measured_at DESC, x.run_id DESC) AS place
                  FROM dataset_metrics x
                 WHERE x.organization_id = $1
                   AND x.dataset_id = $2) o
         WHERE o.place > $3
         LIMIT $4) gone
 WHERE m.organization_id = $1
   AND m.dataset_id = $2
   AND m.measured_at = gone.measured_at
   AND m.run_id = gone.run_id
   AND m.direction = gone.direction
   AND m.partition_key = gone.partition_key;
