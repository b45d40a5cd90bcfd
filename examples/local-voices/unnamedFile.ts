import { mkdtemp, open, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { providerUnavailable } from "@kiln/core/ports"
import { Effect } from "effect"

const orUnavailable = <A>(what: () => Promise<A>) =>
  Effect.tryPromise({ try: what, catch: (cause) => providerUnavailable(`a temporary file: ${String(cause)}`) })

const openUnnamed = async () => {
  const directory = await mkdtemp(join(tmpdir(), "kiln-audio-"))
  try {
    return await open(join(directory, "samples"), "wx+", 0o600)
  } finally {
    await rm(directory, { recursive: true })
  }
}

/**
 * A temporary file without a name: nobody else finds it, and nothing of a caller's audio stays on the disk, not even when
 * the process is killed. Linux opens it again as the `/dev/stdin` of a program it is given to. (Pipes that Node makes are
 * sockets, which cannot be opened by that name.)
 */
export const openUnnamedFile = Effect.acquireRelease(
  orUnavailable(openUnnamed),
  // It is gone with its last reader; what a failing close leaves is a descriptor.
  (handle) => Effect.ignore(orUnavailable(() => handle.close())),
).pipe(
  Effect.map((handle) => ({
    fd: handle.fd,
    append: (samples: Int16Array) =>
      orUnavailable(() => handle.appendFile(new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength))),
  })),
)
