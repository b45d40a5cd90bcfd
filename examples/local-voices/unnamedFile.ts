import { mkdtemp, open, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { providerUnavailable } from "@kiln/core/providers"
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
 * A temporary file without a name: no other process can find it, and no audio stays on the disk even if this process is killed.
 * On Linux, a child process can reopen it as `/dev/stdin`. (Node's pipes are sockets, which cannot be opened that way.)
 */
export const openUnnamedFile = Effect.acquireRelease(
  orUnavailable(openUnnamed),
  // The file disappears with its last reader. A failed close leaks only a descriptor.
  (handle) => Effect.ignore(orUnavailable(() => handle.close())),
).pipe(
  Effect.map((handle) => ({
    fd: handle.fd,
    append: (samples: Int16Array) =>
      orUnavailable(() => handle.appendFile(new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength))),
  })),
)
