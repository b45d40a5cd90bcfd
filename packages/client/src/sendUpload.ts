import { checkedSending } from "./checkOptions.ts"
import type { SendOptions, TransportOptions } from "./ClientOptions.ts"
import { mediaTypes } from "./mediaTypes.ts"
import { sendRequest } from "./sendRequest.ts"
import type { Upload } from "./wire.ts"

/** The content of a file. A stream is sent once; the others are sent again if the connection is lost. */
export type FileBody = Uint8Array<ArrayBuffer> | ArrayBuffer | Blob | ReadableStream<Uint8Array>

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
  await sendRequest(transport, {
    method: "PUT",
    url: upload.upload_url,
    headers: { "content-type": mediaTypes[format] },
    body: file,
    once: "getReader" in file,
    signal,
    // The response to an earlier attempt may have been lost, or the service may not have noticed yet that its sender is gone.
    afterRetry: ({ code }) =>
      code === "upload_already_completed" ? "done" : code === "upload_in_progress" ? "retry" : undefined,
  })
}
