import * as Schema from "effect/Schema"

const { Boolean: Flag, Int, Literals, NullOr, String: Text, Struct } = Schema

const time = Text.annotate({ description: "RFC 3339, UTC." })

export const Schedule = Struct({
  name: Text,
  type: Text,
  mode: Literals(["sandbox", "live"]),
  project_id: Text,
  timing: Text,
  paused: Flag,
  next_at: NullOr(time),
  last_at: NullOr(time),
  last_job_id: NullOr(Text),
  refusal: NullOr(Text),
  overlap: Literals(["allow", "skip", "queue"]),
  ends_at: NullOr(time),
  waits: Flag.annotate({ description: "The job of the current tick waits until the last one has finished." }),
  skipped: Int.annotate({ description: "Ticks that got no job." }),
  last_skipped_at: NullOr(time),
}).annotate({ identifier: "Schedule" })

export const ScheduleRun = Struct({
  job_id: Text,
  deduplicated: Flag.annotate({ description: "An unfinished job was returned; no other was submitted." }),
}).annotate({ identifier: "ScheduleRun" })
