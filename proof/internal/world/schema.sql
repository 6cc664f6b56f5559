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

CREATE TABLE airline_flights (
  flight_number text COLLATE "C" NOT NULL,
  position      integer NOT NULL, -- searches list flights in this order
  origin        text COLLATE "C" NOT NULL,
  destination   text COLLATE "C" NOT NULL,
  departs       text COLLATE "C" NOT NULL, -- "17:00:00"
  arrives       text COLLATE "C" NOT NULL, -- "00:30:00+1" is the next day
  CONSTRAINT airline_flights_pkey PRIMARY KEY (flight_number)
);
CREATE INDEX airline_flights_route_idx ON airline_flights (origin, destination);

CREATE TABLE airline_flight_days (
  flight_number text COLLATE "C" NOT NULL,
  day           text COLLATE "C" NOT NULL,
  status        text NOT NULL GENERATED ALWAYS AS (doc->>'status') STORED,
  doc           json NOT NULL,
  CONSTRAINT airline_flight_days_pkey PRIMARY KEY (flight_number, day),
  CONSTRAINT airline_flight_days_flight_number_fkey FOREIGN KEY (flight_number) REFERENCES airline_flights
);

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

-- What a reset needs: the rows as they were loaded, and which have been
-- written since.
CREATE TABLE pristine (
  table_name text COLLATE "C" NOT NULL,
  id         text COLLATE "C" NOT NULL,
  doc        json NOT NULL,
  CONSTRAINT pristine_pkey PRIMARY KEY (table_name, id)
);

CREATE TABLE dirty (
  table_name text COLLATE "C" NOT NULL,
  id         text COLLATE "C" NOT NULL,
  CONSTRAINT dirty_pkey PRIMARY KEY (table_name, id)
);

-- mark_dirty(id column) notes a written row, unless a reset or a load wrote it.
CREATE FUNCTION mark_dirty() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  written record;
  id text;
BEGIN
  IF current_setting('dedup_world.restoring', true) = 'on' THEN
    RETURN NULL;
  END IF;
  IF TG_OP = 'DELETE' THEN
    written := OLD;
  ELSE
    written := NEW;
  END IF;
  CASE TG_ARGV[0]
    WHEN 'user_id' THEN id := written.user_id;
    WHEN 'reservation_id' THEN id := written.reservation_id;
    WHEN 'order_id' THEN id := written.order_id;
  END CASE;
  INSERT INTO dirty (table_name, id)
  VALUES (TG_TABLE_NAME, id)
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$$;

CREATE TRIGGER airline_users_dirty
AFTER INSERT OR UPDATE OR DELETE ON airline_users
FOR EACH ROW EXECUTE FUNCTION mark_dirty('user_id');

CREATE TRIGGER airline_reservations_dirty
AFTER INSERT OR UPDATE OR DELETE ON airline_reservations
FOR EACH ROW EXECUTE FUNCTION mark_dirty('reservation_id');

CREATE TRIGGER retail_users_dirty
AFTER INSERT OR UPDATE OR DELETE ON retail_users
FOR EACH ROW EXECUTE FUNCTION mark_dirty('user_id');

CREATE TRIGGER retail_orders_dirty
AFTER INSERT OR UPDATE OR DELETE ON retail_orders
FOR EACH ROW EXECUTE FUNCTION mark_dirty('order_id');

-- restore_world() puts the marked rows back. It locks them before it takes the
-- marks away: a writer in flight is waited for, and one that comes later waits
-- without holding a row. A mark committed while it runs stays for the next time.
CREATE FUNCTION restore_world() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  mark record;
  loaded json;
BEGIN
  PERFORM set_config('dedup_world.restoring', 'on', true);

  PERFORM 1 FROM airline_reservations t JOIN dirty d ON d.table_name = 'airline_reservations' AND d.id = t.reservation_id
  ORDER BY t.reservation_id FOR UPDATE OF t;
  PERFORM 1 FROM airline_users t JOIN dirty d ON d.table_name = 'airline_users' AND d.id = t.user_id
  ORDER BY t.user_id FOR UPDATE OF t;
  PERFORM 1 FROM retail_orders t JOIN dirty d ON d.table_name = 'retail_orders' AND d.id = t.order_id
  ORDER BY t.order_id FOR UPDATE OF t;
  PERFORM 1 FROM retail_users t JOIN dirty d ON d.table_name = 'retail_users' AND d.id = t.user_id
  ORDER BY t.user_id FOR UPDATE OF t;

  FOR mark IN DELETE FROM dirty RETURNING table_name, id LOOP
    SELECT doc INTO loaded FROM pristine p
    WHERE p.table_name = mark.table_name AND p.id = mark.id;
    CASE mark.table_name
      WHEN 'airline_users' THEN
        DELETE FROM airline_users WHERE user_id = mark.id;
        INSERT INTO airline_users (user_id, doc) SELECT mark.id, loaded WHERE loaded IS NOT NULL;
      WHEN 'airline_reservations' THEN
        DELETE FROM airline_reservations WHERE reservation_id = mark.id;
        INSERT INTO airline_reservations (reservation_id, doc) SELECT mark.id, loaded WHERE loaded IS NOT NULL;
      WHEN 'retail_users' THEN
        DELETE FROM retail_users WHERE user_id = mark.id;
        INSERT INTO retail_users (user_id, doc) SELECT mark.id, loaded WHERE loaded IS NOT NULL;
      WHEN 'retail_orders' THEN
        DELETE FROM retail_orders WHERE order_id = mark.id;
        INSERT INTO retail_orders (order_id, doc) SELECT mark.id, loaded WHERE loaded IS NOT NULL;
    END CASE;
  END LOOP;

  DELETE FROM effects;
  PERFORM set_config('dedup_world.restoring', '', true);
END
$$;
