import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { registerHooks } from "node:module"
import type { AddressInfo } from "node:net"
import { Effect } from "effect"

// The driver signs its requests with aws4fetch, a peer dependency that is not installed here. The server below ignores
// signatures, so a client that sends unsigned requests is enough.
const unsigned = `data:text/javascript,${encodeURIComponent(
  "export class AwsClient { async sign(url, init) { return new Request(url, init) } }",
)}`
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === "aws4fetch" ? { url: unsigned, shortCircuit: true } : next(specifier, context),
})

/** A bucket that lists keys in order, 1,000 per page, like S3. */
export interface Bucket {
  readonly endpoint: string
  readonly objects: Map<string, Buffer>
}

const pageSize = 1_000

const listing = (objects: Bucket["objects"], query: URLSearchParams): string => {
  const prefix = query.get("prefix") ?? ""
  const keys = [...objects.keys()].filter((key) => key.startsWith(prefix)).toSorted()
  const contents = keys.slice(0, pageSize).map((key) => `<Contents><Key>${key}</Key></Contents>`)
  return `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><IsTruncated>${keys.length > pageSize}</IsTruncated>${contents.join("")}</ListBucketResult>`
}

/** Starts a server on loopback that stores, lists and removes objects like S3, until the scope closes. */
export const fakeS3 = Effect.acquireRelease(
  Effect.promise(async () => {
    const objects = new Map<string, Buffer>()
    const answer = (request: IncomingMessage, response: ServerResponse, body: Buffer) => {
      const url = new URL(request.url ?? "/", "http://localhost")
      const key = decodeURIComponent(url.pathname.split("/").slice(2).join("/"))
      const object = objects.get(key)
      if (request.method === "PUT") objects.set(key, body)
      if (request.method === "DELETE") objects.delete(key)
      if (request.method === "GET" && key === "") return response.end(listing(objects, url.searchParams))
      if (request.method === "DELETE") return response.writeHead(204).end()
      if (request.method === "GET" && object === undefined) return response.writeHead(404).end()
      return response.end(request.method === "GET" ? object : undefined)
    }
    const server = createServer((request, response) => {
      const body: Array<Buffer> = []
      request
        .on("data", (chunk: Buffer) => body.push(chunk))
        .on("end", () => answer(request, response, Buffer.concat(body)))
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const { port } = server.address() as AddressInfo
    return { server, bucket: { endpoint: `http://127.0.0.1:${port}`, objects } satisfies Bucket }
  }),
  ({ server }) =>
    Effect.promise(
      () =>
        new Promise<void>((resolve) => {
          server.closeAllConnections()
          server.close(() => resolve())
        }),
    ),
).pipe(Effect.map(({ bucket }) => bucket))
