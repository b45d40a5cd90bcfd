import type { JsonObject } from "../domain/Json.ts"
import { checkDefinition } from "../kinds/checkDefinition.ts"
import type { AnySchema } from "../kinds/KindDefinition.ts"
import type { ProviderRef } from "../providers/builtInPorts.ts"
import type { AsyncRun } from "./asyncAttempt.ts"
import type { DefinedKind, JobKindOptions } from "./JobKindOptions.ts"
import { unloadedKind } from "./unloadedKind.ts"

/**
 * Defines a custom job kind: its request, output, price and attempts. Pass it to `createEngine` as one of its `kinds`, in every
 * process that submits or runs such jobs.
 */
export const jobKind = <
  const Name extends string,
  S extends AnySchema,
  Output extends object = JsonObject,
  const File extends string = never,
  const Provider extends ProviderRef = never,
  const OrProvider extends ProviderRef = never,
  const Upload extends string = never,
  const Code extends string = never,
  const Switch extends string = never,
  const MeterName extends string = never,
>(
  options: JobKindOptions<Name, S, Output, File, Provider, OrProvider, Upload, Code, Switch, MeterName>,
): DefinedKind<Name, S, Output, File, Provider, OrProvider, Upload, Code, Switch, MeterName> => {
  checkDefinition(options)
  const { name, run, sandbox, upload } = options
  const kind = unloadedKind({
    name,
    upload,
    load: ({ JobKind, runAsync }) =>
      JobKind({
        ...(options as object as Parameters<typeof JobKind>[0]),
        run: runAsync(run as AsyncRun),
        ...(sandbox && { sandbox: runAsync(sandbox as AsyncRun) }),
      }),
  })
  return kind as object as DefinedKind<Name, S, Output, File, Provider, OrProvider, Upload, Code, Switch, MeterName>
}
