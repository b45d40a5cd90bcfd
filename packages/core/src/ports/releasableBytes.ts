const releasable = new WeakSet<ArrayBufferLike>()

/**
 * Declares that the next user of these bytes may free their memory. Nothing else may hold them, or any other view of their buffer.
 * Has no effect if they are only a part of their buffer.
 */
export const markReleasable = (bytes: Uint8Array): void => {
  if (bytes.byteLength === bytes.buffer.byteLength) releasable.add(bytes.buffer)
}

/**
 * Frees the memory of bytes that were marked; they are empty from then on. Has no effect on others. Call it after the last use, also
 * by system calls in progress.
 *
 * Otherwise the garbage collector frees them. V8 counts received bytes as growth of the heap, and collects the whole heap after each
 * 20 MB of them, which costs as much as hashing them.
 */
export const releaseBytes = (bytes: Uint8Array): void => {
  const { buffer } = bytes
  if (releasable.delete(buffer) && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
