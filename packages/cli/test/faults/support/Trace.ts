// What strace wrote, with `-f -y`: one line a system call, each with its thread; descriptors carry their paths.

/** One system call that was entered. */
export interface Call {
  readonly thread: string
  readonly name: string
  /** How many calls of this name its thread had made by then, this one included: what `inject` counts. */
  readonly nth: number
  readonly text: string
}

const entered = /^(\d+)\s+(?:\d+\.\d+\s+)?(\w+)\((.*)$/

export const callsOf = (trace: string): ReadonlyArray<Call> => {
  const counts = new Map<string, number>()
  return trace.split("\n").flatMap((line) => {
    const [, thread, name, text] = entered.exec(line) ?? []
    if (thread === undefined || name === undefined || text === undefined) return []
    const counter = `${thread} ${name}`
    const nth = (counts.get(counter) ?? 0) + 1
    counts.set(counter, nth)
    return { thread, name, nth, text }
  })
}

/** Which part of a data directory a call is about, without names that differ from run to run; `undefined` for what is outside. */
export const placeOf = ({ text }: Call, directory: string): string | undefined => {
  const at = text.indexOf(directory)
  if (at < 0) return undefined
  const path = /^[^>",]*/.exec(text.slice(at + directory.length))?.[0] ?? ""
  if (path === "") return "the data directory"
  if (path.startsWith("/kiln.db")) return path.slice(1)
  return path
    .replace(/[0-9a-z]{26}/, "ID")
    .replace(/shard-[0-9a-z]{2}/, "shard")
    .replace(/^\/tmp\/(\w+)\..*/, "tmp/$1 part")
    .replace(/^\//, "")
    .replace(/(\/|ID\.)\d+(\/|\.|$)/, "$1N$2")
}
