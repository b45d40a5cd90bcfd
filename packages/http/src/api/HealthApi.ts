import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { errorsOf } from "./ErrorBodies.ts"

const Alive = Schema.Struct({ status: Schema.Literal("ok") }).annotate({ identifier: "Alive" })

const checks = Schema.Record(Schema.String, Schema.Literals(["ok", "failing"])).annotate({
  description: "What was looked at, by name.",
})
const Ready = Schema.Struct({ status: Schema.Literal("ready"), checks }).annotate({ identifier: "Ready" })
const NotReady = Schema.Struct({ status: Schema.Literals(["unavailable", "stopping"]), checks })
  .annotate({ identifier: "NotReady" })
  .pipe(HttpApiSchema.status(503))

/** For whoever runs the service. No key is needed. */
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
