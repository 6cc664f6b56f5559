// Reads lines of JSON, {schema, texts}, and answers each with a line: what is wrong with the schema,
// or for each text whether it fits. The validator is as strict as it can be.
import { createInterface } from "node:readline";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

// Of results formats are checked. Of arguments they are notes, as they are to most readers.
const validators = [false, true].map((validateFormats) => addFormats(new Ajv({ strict: true, addUsedSchema: false, validateFormats })));
for await (const line of createInterface({ input: process.stdin })) {
  const { schema, texts, formats } = JSON.parse(line);
  const ajv = validators[Number(formats)];
  let answer;
  try {
    const validate = ajv.compile(schema);
    answer = { fits: texts.map((text) => validate(JSON.parse(text))) };
    ajv.removeSchema(schema);
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
