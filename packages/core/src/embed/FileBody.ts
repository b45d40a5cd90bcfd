/** The content of a file. */
export type FileBody = Uint8Array | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>
