import { createHash } from "node:crypto"
import { createServer, type IncomingMessage, request as httpRequest, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { Effect } from "effect"
import { startFauxqs } from "fauxqs"
import { signatureProblem } from "./verifySignature.ts"

/** The only key that the server accepts. */
export const credentials = { accessKeyId: "AKIATEST", secretAccessKey: "test/secret+key" }
export const bucket = "kiln-files"

export interface Received {
  readonly method: string
  /** Path without the bucket. */
  readonly key: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage["headers"]
}

/** What goes wrong with a request. */
export type Fault =
  /** The connection breaks before the request is handled. */
  | { readonly kind: "refuse" }
  /** The request is handled, and the connection breaks before the response. */
  | { readonly kind: "lose" }
  /** The connection breaks after so many bytes of the response's body. */
  | { readonly kind: "cut"; readonly bytes: number }
  /** No response. */
  | { readonly kind: "stall" }
  | { readonly kind: "respond"; readonly status: number; readonly code: string }
  /** The response has status 200 and this body, by default none, but the request is not handled. */
  | { readonly kind: "pretend"; readonly body?: string }
  /** The body of the response is another. */
  | { readonly kind: "edit"; readonly edit: (body: Buffer) => Buffer }

export interface S3Server {
  readonly endpoint: string
  readonly requests: Array<Received>
  /** Decides about each request. */
  fault: (request: Received) => Fault | undefined
  /** Keys of all objects. */
  readonly keys: () => Promise<ReadonlyArray<string>>
  /** Multipart uploads in progress: id and key. */
  readonly uploads: Map<string, Upload>
  /** Reaches behind the proxy, without signature, checksums and faults. */
  readonly direct: (method: string, path: string, body?: Buffer, headers?: Record<string, string>) => Promise<Answer>
}

interface Upload {
  readonly key: string
  /** Writable, because a test cannot wait a day. */
  began: string
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly body: Buffer
}

const errorAnswer = (status: number, code: string): Answer => ({
  status,
  headers: { "content-type": "application/xml" },
  body: Buffer.from(
    `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>test</Message></Error>`,
  ),
})

const collect = async (stream: IncomingMessage): Promise<Buffer> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** S3 rejects a body that does not have the checksum of its headers. */
const checksumFails = ({ headers }: Received, body: Buffer): boolean => {
  const digest = createHash("sha256").update(body).digest()
  const { "x-amz-checksum-sha256": checksum, "x-amz-content-sha256": signed } = headers
  return (
    (checksum !== undefined && checksum !== digest.toString("base64")) ||
    (signed !== undefined && signed !== digest.toString("hex"))
  )
}

const xml = (status: number, body: string): Answer => ({
  status,
  headers: { "content-type": "application/xml" },
  body: Buffer.from(body),
})

const listUploads = (uploads: S3Server["uploads"], prefix: string): Answer => {
  const listed = [...uploads]
    .filter(([, { key }]) => key.startsWith(prefix))
    .map(
      ([id, { began, key }]) =>
        `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>${began}</Initiated></Upload>`,
    )
  return xml(
    200,
    `<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>${listed.join("")}</ListMultipartUploadsResult>`,
  )
}

/** Remembers which multipart uploads are in progress. */
const follow = (uploads: S3Server["uploads"], { key, method, query }: Received, { body, status }: Answer): void => {
  const id = query.get("uploadId")
  const [, begun] = /<UploadId>(.*?)<\/UploadId>/.exec(query.has("uploads") ? body.toString() : "") ?? []
  if (begun !== undefined) uploads.set(begun, { key, began: new Date().toISOString() })
  if (id !== null && status < 300 && (method === "DELETE" || method === "POST")) uploads.delete(id)
}

type Send = (method: string, path: string, body: Buffer, headers: IncomingMessage["headers"]) => Promise<Answer>
const sendTo =
  (port: number): Send =>
  (method, path, body, headers) =>
    new Promise((resolve, reject) => {
      const { "transfer-encoding": _, ...kept } = headers
      const length = { "content-length": String(body.length), connection: "close" }
      httpRequest({ host: "127.0.0.1", port, method, path, headers: { ...kept, ...length } }, (response) => {
        collect(response).then(
          (received) => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: received }),
          reject,
        )
      })
        .on("error", reject)
        .end(body)
    })

const respond = (response: ServerResponse, answer: Answer, fault: Fault | undefined): void => {
  const body = fault?.kind === "edit" ? fault.edit(answer.body) : answer.body
  const { "content-length": length, "transfer-encoding": _, connection: __, ...headers } = answer.headers
  const isHead = response.req.method === "HEAD"
  response.writeHead(answer.status, {
    ...(headers as Record<string, string>),
    ...(answer.status !== 204 && { "content-length": isHead ? String(length ?? 0) : String(body.length) }),
  })
  if (fault?.kind === "cut") {
    response.write(body.subarray(0, fault.bytes), () => setTimeout(() => response.destroy(), 20))
    return
  }
  response.end(isHead ? undefined : body)
}

/**
 * Starts an S3 server behind a proxy, until the scope closes. The proxy injects faults and adds what S3 has and fauxqs has not:
 * signatures and checksums are verified, and multipart uploads can be listed. Objects, listings and their pages, ranges, copies,
 * and the rules of multipart uploads are fauxqs's.
 */
export const startS3 = Effect.acquireRelease(
  Effect.promise(async () => {
    const inner = await startFauxqs({ port: 0, logger: false })
    inner.createBucket(bucket)
    const send = sendTo(inner.port)
    const uploads: S3Server["uploads"] = new Map()

    const handle = async (request: IncomingMessage, received: Received): Promise<Answer> => {
      const { headers, method = "", url = "" } = request
      const body = await collect(request)
      const problem = signatureProblem({ method, url, headers }, credentials)
      if (problem !== undefined) return errorAnswer(403, problem)
      if (checksumFails(received, body)) return errorAnswer(400, "BadDigest")
      if (method === "GET" && received.query.has("uploads"))
        return listUploads(uploads, received.query.get("prefix") ?? "")
      const answer = await send(method, url, body, headers)
      follow(uploads, received, answer)
      return answer
    }

    const direct: S3Server["direct"] = (method, path, body = Buffer.alloc(0), headers = {}) =>
      send(method, `/${bucket}${path}`, body, headers)
    const server: S3Server = {
      endpoint: "",
      requests: [],
      fault: () => undefined,
      uploads,
      direct,
      keys: async () => {
        const { body } = await direct("GET", "?list-type=2&max-keys=1000")
        return [...body.toString().matchAll(/<Key>(.*?)<\/Key>/g)].map(([, key = ""]) => key)
      },
    }
    const proxy = createServer((request, response) => {
      const url = new URL(request.url ?? "/", "http://localhost")
      const received: Received = {
        method: request.method ?? "",
        key: decodeURIComponent(url.pathname).slice(`/${bucket}/`.length),
        query: url.searchParams,
        headers: request.headers,
      }
      server.requests.push(received)
      const fault = server.fault(received)
      if (fault?.kind === "refuse") return void request.socket.destroy()
      if (fault?.kind === "stall") return void request.resume()
      const answered =
        fault?.kind === "respond" || fault?.kind === "pretend"
          ? collect(request).then(() =>
              fault.kind === "pretend" ? xml(200, fault.body ?? "") : errorAnswer(fault.status, fault.code),
            )
          : handle(request, received)
      answered.then(
        (answer) => (fault?.kind === "lose" ? request.socket.destroy() : respond(response, answer, fault)),
        () => request.socket.destroy(),
      )
    })
    await new Promise<void>((resolve) => void proxy.listen(0, "127.0.0.1", resolve))
    const { port: outer } = proxy.address() as AddressInfo
    const stop = async () => {
      proxy.closeAllConnections()
      await new Promise((resolve) => proxy.close(resolve))
      await inner.stop()
    }
    return { server: Object.assign(server, { endpoint: `http://127.0.0.1:${outer}` }), stop }
  }),
  ({ stop }) => Effect.promise(stop),
).pipe(Effect.map(({ server }) => server))
