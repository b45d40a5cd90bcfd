import { checkedSending } from "./checkOptions.ts"
import type { SendOptions, TransportOptions } from "./ClientOptions.ts"
import { mediaTypes } from "./mediaTypes.ts"
import { sendRequest } from "./sendRequest.ts"
import type { Upload } from "./wire.ts"

/**
 * The content of a file: a `Blob` or `File`, bytes, or a stream, also one of Node.js. A stream is sent once; the others are sent again if the
 * connection is lost.
 */
export type FileBody = Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>

/** A file as `fetch` takes it. */
export type WebBody = Uint8Array<ArrayBuffer> | ArrayBuffer | Blob | ReadableStream<Uint8Array>

/** Returns a file as `fetch` takes it. Throws `TypeError` for anything else, such as a path. */
export const webBody = (file: FileBody): WebBody => {
  const given = Object(file) as object
  if ("getReader" in given || "byteLength" in given || ("size" in given && "slice" in given)) return file as WebBody
  if (!(Symbol.asyncIterator in given)) throw new TypeError("the file must be a Blob, bytes or a stream")
  const pieces = (given as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]()
  return new ReadableStream({
    pull: async (stream) => {
      const next = await pieces.next()
      if (next.done === true) stream.close()
      else stream.enqueue(next.value)
    },
    cancel: async () => void (await pieces.return?.()),
  })
}

/**
 * Sends the file of an upload to its signed URL. It needs no API key: let your server create the upload, and a browser
 * send the file.
 */
export const sendUpload = async (
  upload: Pick<Upload, "upload_url">,
  file: FileBody,
  options: SendOptions & TransportOptions,
): Promise<void> => {
  const { format, signal, ...transport } = checkedSending(options)
  const body = webBody(file)
  await sendRequest(transport, {
    method: "PUT",
    url: upload.upload_url,
    headers: { "content-type": mediaTypes[format] },
    body,
    once: "getReader" in body,
    signal,
    // The response to an earlier attempt may have been lost, or the service may not have noticed yet that its sender is gone.
    afterRetry: ({ code }) =>
      code === "upload_already_completed" ? "done" : code === "upload_in_progress" ? "retry" : undefined,
  })
}
