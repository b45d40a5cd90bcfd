import * as Schema from "effect/Schema"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import { errorsOf } from "./ErrorBodies.ts"

const Alive = Schema.Struct({ status: Schema.Literal("ok") }).annotate({ identifier: "Alive" })

const checks = Schema.Record(Schema.String, Schema.Literals(["ok", "failing"])).annotate({
  description: "What was looked at, by name.",
})
const ProviderDetail = Schema.Struct({
  status: Schema.Literals(["ready", "paused"]).annotate({
    description: "`paused` when no worker can call it at this moment.",
  }),
  workers: Schema.Int.annotate({ description: "Workers that serve it." }),
  paused_workers: Schema.Int.annotate({ description: "Those of them in which it is paused." }),
  reason: Schema.NullOr(Schema.Literals(["quota", "configuration", "failing"])).annotate({
    description: "Why it is paused. `quota` and `configuration` are the operator's to mend.",
  }),
  paused_since: Schema.NullOr(Schema.String),
}).annotate({ identifier: "ProviderDetail" })
const details = Schema.Struct({
  providers: Schema.optionalKey(Schema.Record(Schema.String, ProviderDetail)).annotate({
    description: "The live providers, by what they do. A paused one holds its jobs up, and nothing else.",
  }),
})
const Ready = Schema.Struct({ status: Schema.Literal("ready"), checks, details }).annotate({ identifier: "Ready" })
const NotReady = Schema.Struct({ status: Schema.Literals(["unavailable", "stopping"]), checks, details })
  .annotate({ identifier: "NotReady" })
  .pipe(HttpApiSchema.status(503))

/** Health endpoints for operators. No key is needed. */
export class HealthApi extends HttpApiGroup.make("health")
  .add(
    HttpApiEndpoint.get("healthz", "/healthz", { success: Alive, error: errorsOf("internal_error") }).annotateMerge(
      OpenApi.annotations({ summary: "Whether the process lives" }),
    ),
    HttpApiEndpoint.get("readyz", "/readyz", {
      success: Ready,
      error: [NotReady, ...errorsOf("internal_error")],
    }).annotateMerge(OpenApi.annotations({ summary: "Whether requests should be sent here now" })),
  )
  .annotateMerge(OpenApi.annotations({ title: "Health", description: "For load balancers and operators." })) {}
