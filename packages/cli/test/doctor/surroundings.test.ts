import { describe, expect, it } from "vitest"
import { judgeRoom } from "../../src/doctor/checkDisk.ts"
import { judgeFileSystem } from "../../src/doctor/checkFileSystem.ts"

const gigabyte = 1_073_741_824
const roomy = { directory: "/data", bytes: 100 * gigabyte, freeBytes: 50 * gigabyte, files: 1_000, freeFiles: 900 }

describe("the room on a disk", () => {
  it.each([
    ["plenty", roomy, []],
    ["an empty disk of the smallest size", { ...roomy, bytes: 2 * gigabyte, freeBytes: 2 * gigabyte }, []],
    ["less than a twentieth", { ...roomy, freeBytes: 4 * gigabyte }, [false]],
    ["less than a hundredth", { ...roomy, freeBytes: 0.9 * gigabyte }, [true]],
    ["21 GB of a very large disk", { ...roomy, bytes: 10_000 * gigabyte, freeBytes: 21 * gigabyte }, []],
    ["19 GB of it", { ...roomy, bytes: 10_000 * gigabyte, freeBytes: 19 * gigabyte }, [false]],
    ["half of a tiny disk", { ...roomy, bytes: 0.4 * gigabyte, freeBytes: 0.2 * gigabyte }, [true]],
    ["few inodes", { ...roomy, freeFiles: 40 }, [false]],
    ["no inodes", { ...roomy, freeFiles: 0 }, [true]],
    ["a file system that does not count inodes", { ...roomy, files: 0, freeFiles: 0 }, []],
  ])("%s", (_what, room, expected) => {
    expect(judgeRoom(room).map(({ isProblem }) => isProblem)).toEqual(expected)
  })
})

describe("the file system of a directory", () => {
  const [nfs, fuse, tmpfs, overlay, ext4] = [0x6969, 0x65735546, 0x01021994, 0x794c7630, 0xef53]
  it.each([
    ["a local disk", ext4, true, []],
    ["SQLite on NFS", nfs, true, [true]],
    ["files on NFS", nfs, false, []],
    ["SQLite on CIFS, whose number is negative in 32 bits", (0xff534d42 >> 0) >>> 0, true, [true]],
    ["SQLite on FUSE", fuse, true, [false]],
    ["anything in memory", tmpfs, false, [false]],
    ["anything in a container's layer", overlay, true, [false]],
  ] as const)("%s", (_what, type, holdsSqlite, expected) => {
    expect(judgeFileSystem("/data", type, holdsSqlite).map(({ isProblem }) => isProblem)).toEqual(expected)
  })
})
