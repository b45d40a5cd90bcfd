import { setTimeout } from "node:timers/promises"
import { fileBlobs } from "@kiln/adapter-blobs"
import { postgresStore } from "@kiln/adapter-postgres"
import { jobKind } from "@kiln/core"
import { z } from "zod"

/** What the processes share: a database, and a directory that all of them see. Across machines, `unstorageBlobs` over an object store. */
export const sharedStores = (url: string, directory: string) => ({
  store: postgresStore({ url }),
  blobs: fileBlobs({ directory }),
})

/** Work that takes a second, and says who did it. */
export const print = jobKind({
  name: "print",
  request: z.strictObject({ page: z.int() }),
  output: z.object({ printedBy: z.int() }),
  files: ["sheet"],
  run: async ({ file, request, signal }) => {
    await setTimeout(1_000, undefined, { signal })
    const data = new TextEncoder().encode(`page ${request.page}`)
    await file("sheet", async () => ({ data, mediaType: "text/plain" }))
    return { output: { printedBy: process.pid } }
  },
})
