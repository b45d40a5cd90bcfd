import { FetchRefused } from "./FetchRefused.ts"

/** What undici's and Node's responses have in common. */
interface AnyResponse {
  readonly status: number
  readonly statusText: string
  readonly headers: Iterable<readonly [string, string]> & { get(name: string): string | null }
  readonly body: (AsyncIterable<Uint8Array> & { cancel(): Promise<void> }) | null
}
/**
 * The same answer, whose body may be `maxBytes` long, counted as it is read and after decompression: a header may lie, a
 * small file may unpack to a huge one. What is over it ends the transfer and the body fails with `FetchRefused`.
 */
export const boundedResponse = (response: AnyResponse, maxBytes: number): Response => {
  if (response.status < 200 || response.status > 599) {
    // No `Response` can say that, and nobody could end the transfer any more.
    abandon(response)
    throw new TypeError("the status is none of HTTP's")
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
    // Nothing is read that nobody asked for.
    { highWaterMark: 0 },
  )
  return new Response(body, init)
}

/** Ends the transfer of a body nobody will read. That it had ended already is no failure. */
export const abandon = (response: AnyResponse): void => void response.body?.cancel().catch(() => undefined)
