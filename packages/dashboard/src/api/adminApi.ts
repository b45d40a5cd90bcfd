import * as Schema from "effect/Schema"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as HttpApiSecurity from "effect/http-api/HttpApiSecurity"
import * as OpenApi from "effect/http-api/OpenApi"
import { describeParameters } from "./describeParameters.ts"
import { adminErrors, type AdminErrorCode } from "./errors.ts"
import { type Operation, operations } from "./operations.ts"

/** A token of `kiln token create`. */
class OperatorAuthentication extends HttpApiMiddleware.Service<OperatorAuthentication>()(
  "@kiln/dashboard/OperatorAuthentication",
  { security: { token: HttpApiSecurity.bearer } },
) {}

const errorBody = (status: number) => {
  const codes = (Object.keys(adminErrors) as ReadonlyArray<AdminErrorCode>).filter(
    (code) => adminErrors[code].status === status,
  )
  const [first] = codes
  return Schema.Struct({
    error: Schema.Struct({
      type: Schema.String,
      code: first !== undefined && codes.length === 1 ? Schema.Literal(first) : Schema.Literals(codes),
      message: Schema.String,
      param: Schema.Null,
      details: Schema.Null,
      request_id: Schema.String,
    }),
  })
    .annotate({ identifier: `Error${status}` })
    .pipe(HttpApiSchema.status(status))
}

const bodies = new Map([400, 401, 403, 404, 409, 500, 503].map((status) => [status, errorBody(status)]))

const statusesOf = ({ method, path }: Operation): ReadonlyArray<number> => [
  400,
  401,
  403,
  ...(path.includes(":id") ? [404] : []),
  ...(method === "POST" ? [409] : []),
  500,
  503,
]

const endpointOf = (name: string, operation: Operation): HttpApiEndpoint.Constraint => {
  const path = `/admin/v1${operation.path}` as const
  const error = statusesOf(operation).flatMap((status) => bodies.get(status) ?? [])
  const params = path.includes(":id") ? { params: { id: Schema.String } } : {}
  const description = `Role \`${operation.role}\`.${operation.command === undefined ? "" : ` The same as \`${operation.command}\`.`}`
  const declared =
    operation.method === "GET"
      ? HttpApiEndpoint.get(name, path as "/", {
          ...params,
          query: operation.query.fields,
          success: operation.success,
          error,
        })
      : HttpApiEndpoint.post(name, path as "/", {
          ...params,
          payload: operation.payload as Schema.Struct<{}>,
          success: operation.success,
          error,
        })
  return declared.annotateMerge(OpenApi.annotations({ summary: operation.summary, description })) as never
}

/** The operator's API as data. */
const adminApi = (): HttpApi.Constraint => {
  const endpoints = Object.entries(operations).map(([name, operation]) => endpointOf(name, operation))
  const [first, ...others] = endpoints
  if (first === undefined) throw new Error("the API has no operations")
  const group = HttpApiGroup.make("admin")
    .add(first, ...others)
    .middleware(OperatorAuthentication as never)
    .annotateMerge(
      OpenApi.annotations({ title: "Operations", description: "What the operator's page shows and does." }),
    )
  return HttpApi.make("kiln-admin")
    .add(group as never)
    .annotateMerge(
      OpenApi.annotations({
        title: "kiln operations",
        version: "1",
        description:
          "The operator's API. A token is sent as a bearer token. GET never changes anything; every change, and every look at callers' data, is in the audit log.",
        license: { name: "MIT", identifier: "MIT" },
        servers: [{ url: "/" }],
      }),
    ) as never
}

/** Returns the OpenAPI document of the operator's API. */
export const adminDocument = (): OpenApi.OpenAPISpec => {
  const document = describeParameters({ ...OpenApi.fromApi(adminApi() as never) })
  return { ...document, info: { ...(document["info"] as object), contact: { name: "The operator" } } } as never
}
