/**
 * The columns that a claim returns about its jobs, each an array with a value for every job, and their sources. Arrays and not rows:
 * a row more costs the server and this process more than a value in an array. In the order of the claim. What a first claim makes
 * the same of every job is not among them.
 */
export const claimedColumns = {
  laneId: "mine.lane_id",
  id: "mine.id",
  keyId: "jobs.key_id",
  idempotencyKey: "jobs.idempotency_key",
  fingerprint: "jobs.fingerprint",
  kept: "jobs.kept",
  request: "jobs.request",
  priority: "mine.priority",
  createdAt: "mine.created_at",
  queueLimitMs: "mine.queue_limit_ms",
  runLimitMs: "mine.run_limit_ms",
  token: "mine.token",
  claimableAt: "mine.claimable_at",
  deadlineAt: "mine.deadline_at",
  waitedMs: "mine.waited_ms",
} as const

/** The columns of the queue among them, and those that the claim itself reads. */
export const queueColumns = Object.values(claimedColumns)
  .filter((source) => source.startsWith("mine."))
  .map((source) => source.replace("mine.", "queue."))
  .concat("queue.job_seq")
  .join(", ")

/** Every array has the order in which the jobs are read. */
export const columnArrays = `json_build_object(${Object.entries(claimedColumns)
  .map(([name, source]) => `'${name}', array_agg(${source})`)
  .join(", ")})`

/** Which claimed jobs have more than `claimedColumns`. The token of a job that is claimed for the first time is 1. */
export const hasRest = "mine.token > 1 OR is_claimed OR jobs.upload_id IS NOT NULL OR jobs.price_id IS NOT NULL"

/**
 * Parts that only some jobs have, each with the id of its job: checkpoints and a past, which jobs can have that were claimed before; uploads;
 * prices. Read after the jobs were locked, in a statement of its own, which sees all that was kept before.
 */
export const readRests = `
      SELECT json_agg(json_build_object('id', jobs.id, 'uploadId', jobs.upload_id, 'phaseStartedAt', phase_started_at,
        'ranMs', ran_ms, 'attempts', queue.attempts, 'failures', queue.failures, 'lostWorkers', lost_workers,
        'price', CASE WHEN prices.id IS NOT NULL THEN json_build_object('name', prices.name, 'version', prices.version,
          'currency', currency, 'unitAmounts', unit_amounts) END,
        'checkpoints', (
          SELECT json_agg(json_build_object('step', step, 'value', value)) FROM "kiln".checkpoints WHERE job_id = jobs.id),
        'upload', (
          SELECT json_build_object('id', uploads.id, 'projectId', project_id, 'keyId', key_id, 'mode', uploads.mode,
            'format', format, 'declaredSeconds', declared_seconds, 'createdAt', created_at, 'expiresAt', expires_at,
            'usableUntil', usable_until, 'token', token, 'claimedUntil', claimed_until, 'transfers', transfers,
            'blobKey', blob_key, 'bytes', bytes, 'sha256', sha256, 'erased', erased, 'jobId', jobs.id)
          FROM "kiln".uploads WHERE uploads.id = jobs.upload_id))) INTO rests
      FROM unnest(with_rest) AS claimed(seq) JOIN "kiln".jobs ON jobs.seq = claimed.seq JOIN "kiln".queue ON queue.id = jobs.id
        LEFT JOIN "kiln".prices ON prices.id = jobs.price_id;`
