import { appendFileSync, existsSync, readFileSync } from "node:fs"
import type { RecordedOpenAiCall } from "./RecordedCall.ts"

/** A file with a line of JSON for every change of a call, written at once: what is in it has outlived any process. */
export interface Journal {
  readonly write: (call: RecordedOpenAiCall) => void
}

export const openJournal = (path: string): Journal => {
  // A line that a killed process left unfinished must not swallow the next one.
  if (existsSync(path) && !/(^|\n)$/.test(readFileSync(path, "utf8"))) appendFileSync(path, "\n")
  return {
    write: (call) => appendFileSync(path, `${JSON.stringify(call)}\n`),
  }
}

/**
 * The calls in a journal, as each stood last, in the order in which they began; none where there is no file yet. A call
 * that was running when its stand-in was killed stays `running`.
 */
export const readJournal = (path: string): ReadonlyArray<RecordedOpenAiCall> => {
  if (!existsSync(path)) return []
  const latest = new Map<number, RecordedOpenAiCall>()
  for (const line of readFileSync(path, "utf8").split("\n")) {
    const call = lineOf(line)
    if (call !== undefined) latest.set(call.number, call)
  }
  return [...latest.values()].sort((a, b) => a.number - b.number)
}

const lineOf = (line: string): RecordedOpenAiCall | undefined => {
  try {
    return JSON.parse(line) as RecordedOpenAiCall
  } catch {
    // The last line while it is written, the one a killed process left, and the nothing after the last line break.
    return undefined
  }
}
