// Compiles the schema at start. The bundle has the compiled form in this module's place.

import Ajv from "ajv";
import { produce } from "./schema.mjs";

export default new Ajv().compile(produce);
