/** The events of requests that a person waits for. */
export interface RequestWatcher {
  /** Bytes of a file that were handed to the connection so far. */
  readonly onSent: (bytes: number, total: number) => void
  /** The status of a job, each time it is read. */
  readonly onStatus: (status: string) => void
}

const chunkBytes = 64 * 1_024

/** Streams a file, and counts what the connection has taken. */
const counted = (file: Uint8Array, onSent: RequestWatcher["onSent"]): ReadableStream<Uint8Array> => {
  let sent = 0
  return new ReadableStream(
    {
      pull: (controller) => {
        onSent(sent, file.length)
        if (sent === file.length) {
          controller.close()
          return
        }
        const chunk = file.subarray(sent, sent + chunkBytes)
        sent += chunk.length
        controller.enqueue(chunk)
      },
    },
    { highWaterMark: 0 },
  )
}

/** Node requires `duplex` for streams; the types do not know it. */
const streaming = (init: RequestInit, file: Uint8Array, onSent: RequestWatcher["onSent"]): RequestInit => {
  const headers = { ...(init.headers as Record<string, string>), "content-length": String(file.length) }
  const streamed = { ...init, headers, body: counted(file, onSent), duplex: "half" }
  return streamed
}

/** `fetch`, with the progress of files that are sent and the status of jobs that are read. */
export const watchedFetch =
  ({ onSent, onStatus }: RequestWatcher): typeof globalThis.fetch =>
  async (input, init = {}) => {
    const { body, method } = init
    if (method === "PUT" && body instanceof Uint8Array && body.length > 0)
      return globalThis.fetch(input, streaming(init, body, onSent))
    const response = await globalThis.fetch(input, init)
    if (method === "GET" && response.ok) {
      const { status } = (await response.clone().json()) as { readonly status?: unknown }
      if (typeof status === "string") onStatus(status)
    }
    return response
  }
