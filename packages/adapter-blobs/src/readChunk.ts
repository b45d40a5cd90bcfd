/** Maximum length of a chunk in a stream that is read, in bytes. */
export const READ_CHUNK_BYTES = 64 * 1024
