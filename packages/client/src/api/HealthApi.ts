import * as Schema from "effect/Schema"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import { errorsOf } from "./ErrorBodies.ts"

const Alive = Schema.Struct({ status: Schema.Literal("ok") }).annotate({ identifier: "Alive" })

const checks = Schema.Record(Schema.String, Schema.Literals(["ok", "failing"])).annotate({
  description: "The checks and their results, by name.",
})
const ProviderDetail = Schema.Struct({
  status: Schema.Literals(["ready", "paused"]).annotate({
    description: "`paused` if no worker can call the provider at the moment.",
  }),
  workers: Schema.Int.annotate({ description: "Number of workers that serve the provider." }),
  paused_workers: Schema.Int.annotate({ description: "Number of those workers in which the provider is paused." }),
  reason: Schema.NullOr(Schema.Literals(["quota", "configuration", "failing"])).annotate({
    description: "Why the provider is paused. The operator must resolve `quota` and `configuration`.",
  }),
  paused_since: Schema.NullOr(Schema.String),
}).annotate({ identifier: "ProviderDetail" })
const details = Schema.Struct({
  providers: Schema.optionalKey(Schema.Record(Schema.String, ProviderDetail)).annotate({
    description: "The live providers, by task. A paused provider delays only the jobs that need it.",
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
      OpenApi.annotations({
        summary: "Check that the process is alive",
        description: "Answers without the store. Restart a process that does not answer.",
      }),
    ),
    HttpApiEndpoint.get("readyz", "/readyz", {
      success: Ready,
      error: [NotReady, ...errorsOf("internal_error")],
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Check that the process is ready for requests",
        description: "503 while a check fails, and during a shutdown: send requests to another process.",
      }),
    ),
  )
  .annotateMerge(OpenApi.annotations({ title: "Health", description: "For load balancers and operators." })) {}
