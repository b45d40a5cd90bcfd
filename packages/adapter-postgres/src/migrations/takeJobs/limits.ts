/** More jobs than a claim can ask for: the room of what has no limit. */
const unlimited = "9007199254740991"

/**
 * Counts held jobs, by kind and by project, and finds the kinds and projects that are at their limits. An index that contains only
 * held jobs answers it. Claims with limits run one at a time, so each counts the jobs of the one before.
 */
export const countHeld = `
    SELECT coalesce(jsonb_object_agg(held.name, held.count), '{}'), coalesce(array_agg(held.name) FILTER (WHERE is_full), '{}'),
      json_agg(json_build_object('mode', mode, 'kind', kind, 'projectId', project_id, 'firstEnd', first_end)) FILTER (WHERE is_full)
    INTO counted, names_full, full_now
    FROM (
      SELECT grouped.*, CASE WHEN kind IS NULL THEN coalesce(nullif(coalesce((own_limits ->> project_id)::bigint, project_limit), 0) <= count, false)
          ELSE coalesce((kind_limits ->> kind)::bigint <= count, false) END AS is_full,
        CASE WHEN kind IS NULL THEN mode || ' ' || project_id ELSE 'kind ' || mode || ' ' || kind END AS name
      FROM (
        SELECT mode, kind, project_id, count(*) AS count, min(claimable_at) AS first_end FROM "kiln".queue
        WHERE held AND claimable_at > claim_time GROUP BY GROUPING SETS ((mode, kind), (mode, project_id))) AS grouped) AS held;`

/** Takes turns with other claims that have limits, and determines the room under the limits of the installation. */
export const applyLimits = `
  IF kind_limits IS NOT NULL THEN
    is_due := is_repeated OR EXISTS (
      SELECT FROM json_to_recordset(kinds) AS runnable(kind text, version bigint, mode text)
      CROSS JOIN LATERAL (
        SELECT FROM "kiln".lanes WHERE lanes.kind = runnable.kind AND kind_version = runnable.version AND lanes.mode = runnable.mode
          AND next_at >= 0 AND next_at <= claim_time LIMIT 1) AS due);
    IF NOT is_due THEN
      -- A worker that finds nothing waits for no other claim. It takes nothing even if a job is added meanwhile.
      most := 0;
    ELSE
      IF patient IS NULL AND NOT is_repeated THEN
        IF NOT pg_try_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".claims', 0)) THEN
          RETURN NEXT;
          RETURN;
        END IF;
      ELSE
        -- Processes take turns here, and each is short, so a claim may wait for its turn longer than for a row.
        IF patient IS NOT NULL THEN
          ignored := set_config('lock_timeout', patient, true);
        END IF;
        ignored := pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".claims', 0));
      END IF;
      claim_time := "kiln".store_time();
${countHeld}
      full_projects := full_projects || names_full;
      quotas := kind_room;
      SELECT array_agg('kind ' || mode || ' ' || kind ORDER BY place), array_agg((kind_limits ->> kind)::bigint ORDER BY place)
      INTO kind_names, kind_most FROM (
        SELECT DISTINCT ON (place) * FROM json_to_recordset(kinds) AS runnable(kind text, mode text, place int) ORDER BY place) AS each_kind;
      FOR place IN 1..coalesce(cardinality(kind_names), 0) LOOP
        kind_room[place] := least(quotas[place], kind_most[place] - coalesce((counted ->> kind_names[place])::bigint, 0));
      END LOOP;
    END IF;
  END IF;`

/** The room of the lane's project: in the worker, given how many of its jobs this claim has, and under its limit. */
export const roomOfProject = (owner: string, taken: string): string =>
  `least(CASE WHEN project_slots = 0 THEN ${unlimited} ELSE project_slots - coalesce((held_jobs ->> ${owner})::bigint, 0) - ${taken} END,
        nullif(coalesce((own_limits ->> substr(${owner}, strpos(${owner}, ' ') + 1))::bigint, project_limit), 0) - coalesce((counted ->> ${owner})::bigint, 0))`

/**
 * A job that has run for as long as it may is claimed under a lease that is over: it counts for the worker and not for the limits of the
 * installation. That is rare, so all room is then determined anew.
 */
export const countAgain = `
    IF is_over AND kind_limits IS NOT NULL THEN
${countHeld}
      FOR lane IN 1..lane_count LOOP
        SELECT coalesce(sum(item.count) FILTER (WHERE item.project = projects[lane]), 0),
          coalesce(sum(item.count) FILTER (WHERE item.place = places[lane]), 0)
        INTO taken, given FROM unnest(counts, projects, places) AS item(count, project, place);
        project_room[projects[lane]] := ${roomOfProject("owners[lane]", "taken")};
        kind_room[places[lane]] := least(quotas[places[lane]] - given,
          kind_most[places[lane]] - coalesce((counted ->> kind_names[places[lane]])::bigint, 0));
      END LOOP;
      is_done := false;
    END IF;`
