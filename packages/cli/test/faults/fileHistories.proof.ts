// More random histories.
import "./fileHistories.system.ts"
