import { deliveryMark } from "@kiln/core/rules"
import type { Migration } from "@kiln/core/ports"
import { channel, parentLock } from "./0012Signals.ts"

/** A function that makes those of these jobs claimable that are parked on an event of one sort which has come. */
const waking = (name: string, hasCome: string): string => `
CREATE OR REPLACE FUNCTION "kiln".${name}(seqs bigint[]) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  woken_at bigint := "kiln".store_time();
  parked_ids text[];
  their_lanes bigint[];
BEGIN
  SELECT array_agg(queue.id ORDER BY queue.id), array_agg(queue.lane_id) INTO parked_ids, their_lanes
  FROM unnest(seqs) AS item(seq) JOIN "kiln".parked ON parked.job_seq = item.seq JOIN "kiln".jobs ON jobs.seq = item.seq
    JOIN "kiln".queue ON queue.id = jobs.id AND queue.token = parked.token
  WHERE NOT queue.held AND queue.claimable_at > woken_at AND ${hasCome};
  IF parked_ids IS NULL THEN
    RETURN;
  END IF;
  -- Keeps settle_lanes away from the lanes until the commit.
  PERFORM FROM "kiln".lanes WHERE id = ANY (their_lanes) ORDER BY id FOR KEY SHARE;
  UPDATE "kiln".queue SET claimable_at = woken_at, phase_started_at = woken_at, claim_id = NULL,
    deadline_at = woken_at + greatest(0, queue_limit_ms - waited_ms)
  FROM "kiln".parked
  WHERE queue.id = ANY (parked_ids) AND parked.job_seq = queue.job_seq AND parked.token = queue.token AND NOT queue.held AND
    queue.claimable_at > woken_at;
  PERFORM FROM "kiln".lanes WHERE id = ANY (their_lanes) AND (next_at IS NULL OR next_at > woken_at) ORDER BY id FOR NO KEY UPDATE;
  UPDATE "kiln".lanes SET next_at = woken_at WHERE id = ANY (their_lanes) AND (next_at IS NULL OR next_at > woken_at);
  PERFORM pg_notify(${channel}, 'woken');
END $$;
`

/** Each sort has its own function: a signal must not wake a job that waits for others and for a time. */
const wakeJobs =
  waking(
    "wake_jobs",
    `parked.reason = 'signal' AND
    EXISTS (SELECT FROM "kiln".signals WHERE signals.job_seq = item.seq AND name = parked.subject)`,
  ) + waking("wake_dependents", "parked.reason IN ('children', 'after') AND parked.unfinished <= 0")

/**
 * The jobs that start after one have a label that names it. Only their rows in `parked` are locked, because there may be more of them than
 * advisory locks: `unfinishedPrerequisites` says how none is missed.
 */
const jobsEnded = `
-- Counts the children and prerequisites that end in this transaction, and wakes the jobs that are parked on them.
CREATE OR REPLACE FUNCTION "kiln".children_ended(seqs bigint[]) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  waiting text[];
  reasons text[];
  steps text[];
  counts bigint[];
  complete bigint[];
BEGIN
  SELECT array_agg(job_id), array_agg(reason), array_agg(step), array_agg(ended) INTO waiting, reasons, steps, counts FROM (
    SELECT kept::json #>> '{kiln:submitted,parent,jobId}' AS job_id, 'children' AS reason, kept::json #>> '{kiln:submitted,parent,step}' AS step,
      count(*) AS ended
    FROM "kiln".jobs WHERE seq = ANY (seqs) AND strpos(kept, '"parent":{') > 0 GROUP BY 1, 2, 3
    UNION ALL
    SELECT job_labels.job_id, 'after', NULL, count(*) FROM "kiln".job_labels
    WHERE label = ANY (ARRAY(SELECT '~' || jobs.id FROM "kiln".jobs WHERE jobs.seq = ANY (seqs))) GROUP BY 1) AS waiting_for_these
  WHERE job_id IS NOT NULL;
  IF waiting IS NULL THEN
    RETURN;
  END IF;
  PERFORM pg_advisory_xact_lock_shared(${parentLock("parent")})
  FROM (SELECT DISTINCT id COLLATE "C" AS parent FROM unnest(waiting, reasons) AS item(id, reason) WHERE reason = 'children'
    ORDER BY parent OFFSET 0) AS each_parent;
  -- In the order of their numbers, so that two transactions that end jobs for the same ones cannot deadlock.
  PERFORM FROM "kiln".parked WHERE job_seq = ANY (ARRAY(SELECT jobs.seq FROM "kiln".jobs WHERE jobs.id = ANY (waiting)))
  ORDER BY job_seq FOR NO KEY UPDATE;
  WITH counted AS (
    UPDATE "kiln".parked SET unfinished = parked.unfinished - item.ended
    FROM unnest(waiting, reasons, steps, counts) AS item(id, reason, step, ended) JOIN "kiln".jobs ON jobs.id = item.id
    WHERE parked.job_seq = jobs.seq AND parked.reason = item.reason AND parked.subject = coalesce(item.step, parked.subject)
    RETURNING parked.job_seq, parked.unfinished)
  SELECT array_agg(job_seq) FILTER (WHERE unfinished <= 0) INTO complete FROM counted;
  IF complete IS NOT NULL THEN
    PERFORM "kiln".wake_dependents(complete);
  END IF;
END $$;
`

/** The same function, which also looks for jobs that start after those that end. */
const resultTrigger = `
CREATE OR REPLACE FUNCTION "kiln".result_of_ended_job() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  seqs bigint[];
  all_kept boolean;
  ids text[];
  marked bigint[];
  has_children boolean;
  -- A list, so that each label is searched for in the index.
  after_labels text[];
BEGIN
  SELECT array_agg(job_seq), bool_and(retained = 'kept') INTO seqs, all_kept FROM added;
  SELECT array_agg(id), array_agg(seq) FILTER (WHERE right(kept, ${deliveryMark.length}) = '${deliveryMark}'),
    bool_or(strpos(kept, '"parent":{') > 0),
    array_agg('~' || id)
  INTO ids, marked, has_children, after_labels FROM "kiln".jobs WHERE seq = ANY (seqs);
  IF NOT all_kept OR coalesce(cardinality(ids), 0) < cardinality(seqs) OR EXISTS (SELECT FROM "kiln".queue WHERE id = ANY (ids)) THEN
    RAISE EXCEPTION 'a result needs a job that has left the queue and whose data is kept';
  END IF;
  -- Whatever ends a marked job, onFinished is to be called.
  IF marked IS NOT NULL THEN
    INSERT INTO "kiln".deliveries (job_id, kind, due_at, attempts, token)
    SELECT job_id, kind, finished_at, 0, 0 FROM added WHERE job_seq = ANY (marked);
  END IF;
  -- Whatever ends a child, its parent goes on, and whatever ends a prerequisite, the jobs that start after it do.
  IF has_children OR EXISTS (SELECT FROM "kiln".job_labels WHERE label = ANY (after_labels)) THEN
    PERFORM "kiln".children_ended(seqs);
  END IF;
  RETURN NULL;
END $$;
`

/** Jobs that are parked until others have finished. */
export const prerequisites: Migration = {
  name: "0014Prerequisites",
  sql: wakeJobs + jobsEnded + resultTrigger,
}
