import type { FileHandle } from "node:fs/promises"
import { expect, it } from "vitest"
import { readAt, writeAll } from "../src/file/system.ts"

// Partial reads and writes, which a real file system does only when a disk fills up or a signal arrives.
const AT_ONCE = 3

it("continues after a partial write", async () => {
  const written: Array<number> = []
  const writev = async (pieces: ReadonlyArray<Uint8Array>) => {
    const part = Buffer.concat(pieces).subarray(0, AT_ONCE)
    written.push(...part)
    return { bytesWritten: part.length, buffers: pieces }
  }
  const pieces = [[1, 2], [], [3, 4, 5, 6], [7]].map((bytes) => Uint8Array.from(bytes))
  await writeAll({ writev } as Pick<FileHandle, "writev">, pieces)
  expect(written).toEqual([1, 2, 3, 4, 5, 6, 7])
})

it("continues after a partial read, and stops at the end of the file", async () => {
  const file = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8)
  const read = async (bytes: Uint8Array, at: number, length: number, position: number) => {
    const part = file.subarray(position, position + Math.min(AT_ONCE, length))
    bytes.set(part, at)
    return { bytesRead: part.length, buffer: bytes }
  }
  const handle = { read } as Pick<FileHandle, "read">
  expect([...(await readAt(handle, 1, 5))]).toEqual([2, 3, 4, 5, 6])
  expect([...(await readAt(handle, 6, 5))]).toEqual([7, 8])
})
