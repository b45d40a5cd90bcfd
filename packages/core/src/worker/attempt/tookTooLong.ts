import { AttemptFailed } from "../../kinds/AttemptContext.ts"

/** The failure of an attempt that takes longer than its kind allows. */
export const tookTooLong = (attemptTimeoutMs: number): AttemptFailed =>
  new AttemptFailed({
    errorCode: "job_timeout",
    retry: true,
    detail: `the attempt took longer than attemptTimeoutMs, ${attemptTimeoutMs} ms`,
  })
