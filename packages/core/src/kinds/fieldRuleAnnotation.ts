import type { FieldRule } from "../domain/FieldError.ts"

// Each check carries the rule it enforces, so that an error can name the rule that a request violates.
declare module "effect/Schema" {
  namespace Annotations {
    interface Filter {
      readonly fieldRule?: FieldRule | undefined
    }
  }
}
