import { runKiln } from "./program.ts"
import { runProcess } from "./runProcess.ts"

runProcess(runKiln)
