// The limit that kiln's HTTP service is compared with: bare `node:http` that sends the same bytes. Prints its port.
import { createHash, randomUUID } from "node:crypto"
import { createReadStream } from "node:fs"
import { open, rename, rm, stat } from "node:fs/promises"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { join } from "node:path"

/** The response to every other request, with the path of the file that `/file` sends, and where uploads go. */
export interface HttpServerOptions {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly file: string
  readonly directory: string
}

const { body, directory, file, headers, status } = JSON.parse(process.argv[2] ?? "") as HttpServerOptions
const pieceBytes = 1_024 * 1_024

const textOf = async (request: IncomingMessage): Promise<string> => {
  const pieces: Array<Buffer> = []
  for await (const piece of request) pieces.push(piece as Buffer)
  return Buffer.concat(pieces).toString()
}

/** Sends the file; with `?hash` it is hashed on the way. */
const sendFile = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const hash = request.url === "/file?hash" ? createHash("sha256") : undefined
  response.writeHead(200, { "content-type": "audio/wav", "content-length": (await stat(file)).size })
  const stream = createReadStream(file, { highWaterMark: pieceBytes })
  if (hash !== undefined) stream.on("data", (piece) => hash.update(piece))
  stream.pipe(response)
  response.on("finish", () => hash?.digest())
}

/** Writes the body to a file, hashes it, syncs it to disk and gives it its name. */
const receiveFile = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const hash = createHash("sha256")
  const path = join(directory, randomUUID())
  const handle = await open(path, "wx")
  let gathered: Array<Buffer> = []
  let bytes = 0
  for await (const piece of request as AsyncIterable<Buffer>) {
    hash.update(piece)
    gathered.push(piece)
    bytes += piece.length
    if (bytes < pieceBytes) continue
    await handle.writev(gathered)
    gathered = []
    bytes = 0
  }
  if (gathered.length > 0) await handle.writev(gathered)
  await handle.sync()
  await handle.close()
  await rename(path, `${path}.done`)
  response.writeHead(200, { "content-type": "text/plain" }).end(hash.digest("hex"))
  await rm(`${path}.done`)
}

/** Reads the request before it answers. */
const receiveJson = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  JSON.parse(await textOf(request))
  response.writeHead(status, headers).end(body)
}

const server = createServer((request, response) => {
  if (request.method === "PUT") void receiveFile(request, response)
  else if (request.url?.startsWith("/file") === true) void sendFile(request, response)
  else if (request.method === "POST") {
    void receiveJson(request, response)
  } else response.writeHead(status, headers).end(body)
})
server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  if (address !== null && typeof address === "object") console.log(JSON.stringify({ port: address.port }))
})
