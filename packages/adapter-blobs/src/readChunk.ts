/**
 * Maximum length of a chunk in a stream that is read, in bytes. Larger buffers take twice the processor time: each is mapped as
 * fresh memory, while small ones are collected early and used again.
 */
export const READ_CHUNK_BYTES = 64 * 1024
