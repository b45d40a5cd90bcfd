import { expect } from "vitest"
import type { Api, Call } from "../support/Api.ts"
import { mountPrefix } from "../support/Service.ts"
import { row, rows, table } from "../support/tables.ts"
import { file, routes, upload } from "./routes.ts"

/** Request details that change nothing, cross-origin requests, and everything served besides the API. */

const extras = rows<readonly [string, Omit<Call, "path">]>(
  [
    ["a body on a GET", { method: "GET", body: '{"a":1}' }],
    ["a body on a DELETE", { method: "DELETE", body: "{" }],
    [
      "a method in a header",
      { method: "GET", headers: { "x-http-method-override": "DELETE", "x-method-override": "DELETE" } },
    ],
    ["another Accept", { method: "GET", headers: { accept: "text/html" } }],
    ["no Accept at all", { method: "GET", headers: { accept: "application/json;q=0" } }],
    [
      "a validator",
      { method: "GET", headers: { "if-none-match": "*", "if-modified-since": "Fri, 01 Jan 2100 00:00:00 GMT" } },
    ],
  ],
  ([name]) => `${name} changes nothing`,
  async (api, [, call]) => {
    const job = await api.job("/v1/audio/speech", { input: "x" })
    await api.finished(job.path)
    const answer = await api.send({ path: call.method === "DELETE" ? `${job.path}/data` : job.path, ...call })
    expect(answer.status).toBe(call.method === "DELETE" ? 204 : 200)
    expect((await api.get(job.path)).json.warning_code).toBe(call.method === "DELETE" ? "data_deleted" : null)
  },
)

const noCors = rows(
  routes.filter(([path]) => path !== upload && path !== file),
  ([path]) => `${path} is not open to other origins`,
  async (api, [path, [method = ""]]) => {
    const headers = {
      origin: "https://evil.example",
      "access-control-request-method": method,
      "access-control-request-headers": "authorization",
    }
    const preflight = await api.send({ method: "OPTIONS", path, key: null, headers })
    const request = await api.send({ method, path, headers: { origin: "https://evil.example" } })
    for (const answer of [preflight, request]) expect(answer.header("access-control-allow-origin")).toBeUndefined()
  },
)

const cheap = async (api: Api, path: string) => {
  const answer = await api.get(path, { key: null })
  expect(answer.status).toBe(200)
  return answer
}

/** A service whose disk is slow for a moment is not ready for that long. A good answer is then kept for seconds. */
const untilReady = async ({ service }: Api): Promise<void> => {
  const path = `${service.settings.mount === undefined ? "" : mountPrefix}/readyz`
  for (const port of service.ports)
    while ((await fetch(`http://127.0.0.1:${port}${path}`)).status === 503)
      await new Promise((resolve) => setTimeout(resolve, 100))
}

const besides = [
  ...rows(
    ["/healthz", "/readyz", "/openapi.json", "/docs", "/"],
    (path) => `GET ${path} is 200 for everybody, and nothing else is allowed`,
    async (api, path) => {
      if (path === "/readyz") await untilReady(api)
      await cheap(api, path)
      for (const method of ["POST", "PUT", "DELETE"])
        expect((await api.send({ method, path, key: null })).code).toBe("method_not_allowed")
    },
  ),
  row("/openapi.json describes the ten endpoints", async (api) => {
    const { paths } = (await cheap(api, "/openapi.json")).json
    for (const path of [
      "/v1/audio/uploads",
      "/v1/audio/transcriptions",
      "/v1/audio/speech",
      "/v1/voice/turns",
      "/v1/jobs/{id}",
      "/v1/jobs/{id}/data",
      "/v1/images/generations",
      "/v1/images/jobs/{id}",
      "/v1/images/jobs/{id}/data",
    ])
      expect(Object.keys(paths)).toContain(path)
    expect(Object.entries<object>(paths).filter(([, item]) => "put" in item)).toHaveLength(1)
  }),
]

export const besidesRoutes = table("beside the routes", extras, noCors, besides)
