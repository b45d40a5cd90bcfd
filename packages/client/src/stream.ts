// Imports only types, because a bundle would split off what it shares with the rest of the client.
import type { StreamOptions } from "./ClientOptions.ts"
import type { Ask, ClientRoute } from "./Ask.ts"

/** What the service sends in an event: a chunk, or the end of the stream. */
export interface StreamEvent {
  readonly index?: number
}

/** Milliseconds before a stream that broke is opened again. */
const REOPEN_MS = 1_000

/** Decodes server-sent events, as the service writes them. */
async function* eventsIn(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent, undefined> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ""
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const events = (rest + decoder.decode(value, { stream: true })).split("\n\n")
      rest = events.pop() ?? ""
      for (const event of events) {
        const data = /^data: (.*)$/m.exec(event)?.[1]
        if (data !== undefined) yield JSON.parse(data) as StreamEvent
      }
    }
  } finally {
    // Closes the connection of a loop that is left.
    reader.cancel().catch(() => undefined)
  }
}

/** The body of an answer that is a stream; the text of an error. */
const eventStream = async (response: Response): Promise<unknown> => (response.ok ? response.body : response.text())

/** Waits before a stream is opened again, or until the signal aborts. */
const pause = (signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener("abort", end)
      resolve()
    }
    const timer = setTimeout(end, REOPEN_MS)
    signal?.addEventListener("abort", end)
    if (signal?.aborted === true) end()
  })

/** Whether the service may answer a moment later. */
const isPassing = (error: unknown): boolean => {
  const { code, status = 0 } = error as { readonly code?: string; readonly status?: number }
  return code === "connection_lost" || [408, 429, 502, 503, 504].includes(status)
}

/** Reads the chunks of a job until it has ended. A stream that breaks is opened again after the last chunk. */
export async function* stream(
  ask: Ask,
  { noun, poll }: ClientRoute["family"],
  { id }: { readonly id: string },
  options: StreamOptions = {},
): AsyncGenerator<StreamEvent, undefined> {
  const { from = 0, ...call } = options
  const { signal } = call
  const open = async (last: number): Promise<unknown> => {
    const headers = last < 0 ? {} : { "last-event-id": `${last}` }
    return (await ask(`stream${noun}Job`, "GET", `${poll}/stream`, call, { id, headers, read: eventStream })).body
  }
  let next = from
  for (;;) {
    const body = await open(next - 1).catch((error: unknown) => {
      signal?.throwIfAborted()
      if (!isPassing(error)) throw error
    })
    const events = body === undefined ? undefined : eventsIn(body as ReadableStream<Uint8Array>)
    try {
      for (;;) {
        const read = await events?.next().catch(() => signal?.throwIfAborted())
        if (read === undefined || read.done === true) break
        if (read.value.index === undefined) return
        next = read.value.index + 1
        yield read.value
      }
    } finally {
      void events?.return(undefined)
    }
    await pause(signal)
  }
}
