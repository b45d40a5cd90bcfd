import { appendFileSync, existsSync, readFileSync } from "node:fs"
import type { RecordedOpenAiCall } from "./RecordedCall.ts"

/** A file with a line of JSON for every change of a call, written immediately, so that it survives a killed process. */
export interface Journal {
  readonly write: (call: RecordedOpenAiCall) => void
}

export const openJournal = (path: string): Journal => {
  // An unfinished line of a killed process must not swallow the next one.
  if (existsSync(path) && !/(^|\n)$/.test(readFileSync(path, "utf8"))) appendFileSync(path, "\n")
  return {
    write: (call) => appendFileSync(path, `${JSON.stringify(call)}\n`),
  }
}

/**
 * Returns the latest state of the calls in a journal, in order of their start; empty if the file does not exist. A call that
 * was running when its stand-in was killed stays `running`.
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
    // The last line while it is being written, an unfinished line of a killed process, or the empty text after the last line break.
    return undefined
  }
}
