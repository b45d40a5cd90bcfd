import type { FieldRule } from "../domain/FieldError.ts"

// Each check carries the rule it enforces, so that a refused request can be told which one it broke.
declare module "effect/Schema" {
  namespace Annotations {
    interface Filter {
      readonly fieldRule?: FieldRule | undefined
    }
  }
}
