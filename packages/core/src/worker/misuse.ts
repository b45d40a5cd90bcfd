import { AttemptFailed } from "../kinds/index.ts"

/** A mistake of a kind's author, in words of kiln's own: so the log may have them, and they hold nothing of a user's. */
export const misuse = (detail: string): AttemptFailed =>
  new AttemptFailed({ errorCode: "internal_error", retry: true, detail })
