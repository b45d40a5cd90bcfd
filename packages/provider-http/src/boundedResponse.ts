import { FetchRefused } from "./FetchRefused.ts"

/** The common part of undici's and Node's responses. */
interface AnyResponse {
  readonly status: number
  readonly statusText: string
  readonly headers: Iterable<readonly [string, string]> & { get(name: string): string | null }
  readonly body: (AsyncIterable<Uint8Array> & { cancel(): Promise<void> }) | null
}
/**
 * Limits the body of a response to `maxBytes`. Bytes are counted as they are read, after decompression, because headers
 * may lie and small bodies may decompress to huge ones. A longer body ends the transfer and fails with `FetchRefused`.
 */
export const boundedResponse = (response: AnyResponse, maxBytes: number): Response => {
  if (response.status < 200 || response.status > 599) {
    // `Response` would throw for this status, and the transfer could no longer be ended.
    abandon(response)
    throw new TypeError("invalid HTTP status")
  }
  const init = {
    status: response.status,
    statusText: response.statusText,
    headers: [...response.headers].map(([name, value]): [string, string] => [name, value]),
  }
  if (response.body === null) return new Response(null, init)
  if (Number(response.headers.get("content-length") ?? 0) > maxBytes) {
    abandon(response)
    throw new FetchRefused("too_large")
  }
  const chunks = response.body[Symbol.asyncIterator]()
  let bytes = 0
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      pull: async (controller) => {
        const chunk = await chunks.next()
        if (chunk.done === true) return controller.close()
        bytes += chunk.value.byteLength
        if (bytes <= maxBytes) return controller.enqueue(new Uint8Array(chunk.value))
        void chunks.return?.().catch(() => undefined)
        throw new FetchRefused("too_large")
      },
      cancel: async () => void (await chunks.return?.()),
    },
    // Read only on demand.
    { highWaterMark: 0 },
  )
  return new Response(body, init)
}

/** Ends the transfer of a body that will not be read. No-op if it has ended already. */
export const abandon = (response: AnyResponse): void => void response.body?.cancel().catch(() => undefined)
