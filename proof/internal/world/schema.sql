-- The application's tables. Names are unqualified on purpose: the schema that
-- search_path puts first is the world, so that one database can hold several.
--
-- Documents are json, not jsonb: jsonb would reorder keys and rewrite numbers.
-- What the tools look up by is generated from the document and so cannot drift
-- from it.

CREATE TABLE airline_users (
  user_id text COLLATE "C" NOT NULL,
  doc     json NOT NULL,
  CONSTRAINT airline_users_pkey PRIMARY KEY (user_id)
);

CREATE TABLE airline_reservations (
  reservation_id text COLLATE "C" NOT NULL,
  user_id        text COLLATE "C" NOT NULL GENERATED ALWAYS AS (doc->>'user_id') STORED,
  status         text GENERATED ALWAYS AS (doc->>'status') STORED,
  doc            json NOT NULL,
  CONSTRAINT airline_reservations_pkey PRIMARY KEY (reservation_id),
  CONSTRAINT airline_reservations_id_check CHECK (doc->>'reservation_id' = reservation_id)
);
CREATE INDEX airline_reservations_user_id_idx ON airline_reservations (user_id);

-- One row, locked by whoever gives a new reservation its number.
CREATE TABLE airline_numbering (
  the_row boolean NOT NULL DEFAULT true,
  CONSTRAINT airline_numbering_pkey PRIMARY KEY (the_row),
  CONSTRAINT airline_numbering_the_row_check CHECK (the_row)
);

INSERT INTO airline_numbering DEFAULT VALUES;

CREATE TABLE airline_flights (
  flight_number text COLLATE "C" NOT NULL,
  origin        text COLLATE "C" NOT NULL GENERATED ALWAYS AS (doc->>'origin') STORED,
  destination   text COLLATE "C" NOT NULL GENERATED ALWAYS AS (doc->>'destination') STORED,
  doc           json NOT NULL,
  CONSTRAINT airline_flights_pkey PRIMARY KEY (flight_number)
);
CREATE INDEX airline_flights_origin_idx ON airline_flights (origin);
CREATE INDEX airline_flights_destination_idx ON airline_flights (destination);

CREATE TABLE retail_users (
  user_id    text COLLATE "C" NOT NULL,
  email      text COLLATE "C" GENERATED ALWAYS AS (lower(doc->>'email')) STORED,
  first_name text COLLATE "C" GENERATED ALWAYS AS (lower(doc->'name'->>'first_name')) STORED,
  last_name  text COLLATE "C" GENERATED ALWAYS AS (lower(doc->'name'->>'last_name')) STORED,
  zip        text COLLATE "C" GENERATED ALWAYS AS (doc->'address'->>'zip') STORED,
  doc        json NOT NULL,
  CONSTRAINT retail_users_pkey PRIMARY KEY (user_id)
);
CREATE INDEX retail_users_email_idx ON retail_users (email);
CREATE INDEX retail_users_name_idx ON retail_users (last_name, first_name, zip);

CREATE TABLE retail_orders (
  order_id text COLLATE "C" NOT NULL,
  user_id  text COLLATE "C" NOT NULL GENERATED ALWAYS AS (doc->>'user_id') STORED,
  status   text NOT NULL GENERATED ALWAYS AS (doc->>'status') STORED,
  doc      json NOT NULL,
  CONSTRAINT retail_orders_pkey PRIMARY KEY (order_id),
  CONSTRAINT retail_orders_id_check CHECK (doc->>'order_id' = order_id)
);
CREATE INDEX retail_orders_user_id_idx ON retail_orders (user_id);

CREATE TABLE retail_products (
  product_id text COLLATE "C" NOT NULL,
  name       text NOT NULL GENERATED ALWAYS AS (doc->>'name') STORED,
  doc        json NOT NULL,
  CONSTRAINT retail_products_pkey PRIMARY KEY (product_id)
);

-- The audit log. Nothing is unique but the number: a second effect of one call
-- must be seen, not refused.
CREATE TABLE effects (
  effect_id bigint GENERATED ALWAYS AS IDENTITY,
  domain    text NOT NULL,
  tool      text NOT NULL,
  subject   text NOT NULL,
  call_ref  text NOT NULL,
  at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT effects_pkey PRIMARY KEY (effect_id)
);
CREATE INDEX effects_call_ref_idx ON effects (call_ref);
