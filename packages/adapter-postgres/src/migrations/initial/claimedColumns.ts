/**
 * The columns of a claimed job, which are also the variables that a row is read into. Its numbers are one array, and what only
 * some jobs have is one document: each column more costs the server and this process for every job.
 */
export const returned = `
  id text, "projectId" text, "keyId" text, mode text, kind text, "idempotencyKey" text, fingerprint text, kept text, request text,
  numbers bigint[], rest json`

/** The numbers of a claimed job, in the order of the array: their names, and where they come from. */
export const claimedNumbers = [
  ["laneId", "mine.lane_id"],
  ["place", "mine.place"],
  ["kindVersion", "jobs.kind_version"],
  ["priority", "mine.priority"],
  ["createdAt", "mine.created_at"],
  ["queueLimitMs", "mine.queue_limit_ms"],
  ["runLimitMs", "mine.run_limit_ms"],
  ["token", "mine.token"],
  ["claimableAt", "mine.claimable_at"],
  ["deadlineAt", "mine.deadline_at"],
  ["phaseStartedAt", "mine.phase_started_at"],
  ["ranMs", "mine.ran_ms"],
  ["waitedMs", "mine.waited_ms"],
  ["attempts", "mine.attempts"],
  ["failures", "mine.failures"],
  ["lostWorkers", "mine.lost_workers"],
] as const

/** The number of this name in a row. */
export const at = (wanted: (typeof claimedNumbers)[number][0]): string =>
  `numbers[${claimedNumbers.findIndex(([name]) => name === wanted) + 1}]`

/** What only some jobs have. Read after the job was locked, in a statement of its own, which sees all that was kept before. */
export const readRest = `
      checkpoints := NULL;
      IF has_steps OR ${at("attempts")} > 1 THEN
        SELECT json_agg(json_build_object('step', step, 'value', value)) INTO checkpoints
        FROM "kiln".checkpoints WHERE job_id = claimed_id;
      END IF;
      upload := NULL;
      IF claimed_upload IS NOT NULL THEN
        SELECT json_build_object('id', uploads.id, 'projectId', project_id, 'keyId', key_id, 'mode', uploads.mode, 'format', format,
          'declaredSeconds', declared_seconds, 'createdAt', created_at, 'expiresAt', expires_at, 'usableUntil', usable_until,
          'token', token, 'claimedUntil', claimed_until, 'transfers', transfers, 'blobKey', blob_key, 'bytes', bytes,
          'sha256', sha256, 'erased', erased, 'jobId', claimed_id) INTO upload
        FROM "kiln".uploads WHERE uploads.id = claimed_upload;
      END IF;
      rest := NULL;
      IF price IS NOT NULL OR claimed_upload IS NOT NULL OR checkpoints IS NOT NULL THEN
        rest := json_build_object('price', price, 'uploadId', claimed_upload, 'upload', upload, 'checkpoints', checkpoints);
      END IF;`
