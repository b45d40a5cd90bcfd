// Runs the tests named in KILN_MUTATION_TESTS, in this order, for scripts/mutation.ts: the first ones detect the most mutants.
import { matchesGlob, relative } from "node:path"
import { BaseSequencer, type TestSpecification } from "vitest/node"
import configOf from "../../vitest.config.ts"

const tests = (process.env["KILN_MUTATION_TESTS"] ?? "").split(" ")

class AsListed extends BaseSequencer {
  override sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    const placeOf = ({ moduleId }: TestSpecification): number =>
      tests.findIndex((glob) => matchesGlob(relative(process.cwd(), moduleId), glob))
    return Promise.resolve(files.toSorted((one, other) => placeOf(one) - placeOf(other)))
  }
}

const config = configOf({ command: "serve", mode: "test" })

export default { ...config, test: { ...config.test, include: tests, sequence: { sequencer: AsListed } } }
