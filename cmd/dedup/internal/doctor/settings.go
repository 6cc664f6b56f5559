package doctor

import (
	"context"
	"fmt"
	"strings"
)

// settings are those of a server that the checks ask for.
type settings struct {
	node string // of a Citus cluster, if it is not the one that is connected to

	Role     string `json:"role"`     // that connected, quoted
	Database string `json:"database"` // quoted

	Session map[string]sessionSetting `json:"session"`
	Stored  []storedSetting           `json:"stored"`
}

// sessionSetting is a setting as the session has it.
type sessionSetting struct {
	Value  string `json:"value"`
	Source string `json:"source"` // as in pg_settings
}

// storedSetting is one that new sessions begin with.
type storedSetting struct {
	Line        string `json:"line"` // name=value
	ForRole     bool   `json:"for_role"`
	ForDatabase bool   `json:"for_database"`
}

// A setting's sources, as pg_settings names them, those that win first.
const (
	sourceClient         = "client"
	sourceRoleInDatabase = "database user"
	sourceRole           = "user"
	sourceDatabase       = "database"
	sourceAllRoles       = "global"
)

// settingsSQL reads the settings named by %s, as a literal: a node of a Citus
// cluster is asked without parameters. The settings of new sessions are read beside those of this one: behind a
// pooler this session may be older than an ALTER ROLE.
const settingsSQL = `
SELECT json_build_object(
    'role', quote_ident(session_user),
    'database', quote_ident(current_database()),
    'session', (
        SELECT json_object_agg(name, json_build_object('value', setting, 'source', source))
          FROM pg_catalog.pg_settings
         WHERE name = ANY (%[1]s::text[])),
    'stored', (
        SELECT json_agg(json_build_object('line', line, 'for_role', s.setrole <> 0, 'for_database', s.setdatabase <> 0))
          FROM pg_catalog.pg_db_role_setting s, unnest(s.setconfig) AS line
         WHERE s.setrole IN (0, (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = session_user))
           AND s.setdatabase IN (0, (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()))
           AND split_part(line, '=', 1) = ANY (%[1]s::text[])))`

// readSettings reads the settings of the server that is connected to.
func readSettings(ctx context.Context, s *session, names ...string) (*settings, error) {
	found := &settings{}
	if err := s.read(ctx, settingsQuery(names), nil, found); err != nil {
		return nil, err
	}
	return found, found.lacking(names)
}

// readSettingsEverywhere reads them of all nodes of a Citus cluster, this one
// first. What cannot be read of the others is in the findings.
func readSettingsEverywhere(ctx context.Context, s *session, id string, names ...string) ([]*settings, []Finding, error) {
	here, err := readSettings(ctx, s, names...)
	if err != nil {
		return nil, nil, err
	}
	all := []*settings{here}
	var unread []Finding
	nodes, err := s.askNodes(ctx, settingsQuery(names))
	if err != nil {
		unread = append(unread, unreadable(id, "the other nodes of the cluster: "+err.Error(), tryAgain))
	}
	for _, n := range nodes {
		if n.Here {
			continue
		}
		there := &settings{node: n.Name}
		err := n.decode(there)
		if err == nil {
			err = there.lacking(names)
		}
		if err != nil {
			unread = append(unread, n.unreadable(id, err))
			continue
		}
		all = append(all, there)
	}
	return all, unread, nil
}

// settingsQuery is settingsSQL for settings whose names are this package's own.
func settingsQuery(names []string) string {
	return fmt.Sprintf(settingsSQL, "'{"+strings.Join(names, ",")+"}'")
}

func (s *settings) lacking(names []string) error {
	for _, name := range names {
		if _, ok := s.Session[name]; !ok {
			return fmt.Errorf("the server has no setting %s", name)
		}
	}
	return nil
}

// A setting is one as new sessions of the role have it.
type setting struct {
	name, value, source string
	node                string // as in settings
	role, database      string // quoted
}

// effective returns the setting of new sessions. What the connection itself asks
// for wins over what is stored.
func (s *settings) effective(name string) setting {
	now := s.Session[name]
	result := setting{name: name, value: now.Value, source: now.Source, node: s.node, role: s.Role, database: s.Database}
	if now.Source == sourceClient {
		return result
	}
	for _, source := range []string{sourceRoleInDatabase, sourceRole, sourceDatabase, sourceAllRoles} {
		for _, stored := range s.Stored {
			key, value, _ := strings.Cut(stored.Line, "=")
			if key == name && stored.source() == source {
				result.value, result.source = canonical(value), source
				return result
			}
		}
	}
	return result
}

func (s storedSetting) source() string {
	switch {
	case s.ForRole && s.ForDatabase:
		return sourceRoleInDatabase
	case s.ForRole:
		return sourceRole
	case s.ForDatabase:
		return sourceDatabase
	default:
		return sourceAllRoles
	}
}

// canonical spells a switch as pg_settings does: what is stored is spelled as
// somebody wrote it, and Postgres takes the beginning of a word for the word.
func canonical(value string) string {
	value = strings.ToLower(value)
	begins := func(word string) bool { return value != "" && strings.HasPrefix(word, value) }
	switch {
	case begins("true"), begins("yes"), value == "1":
		return "on"
	case begins("false"), begins("no"), value == "of", value == "0":
		return "off"
	default:
		return value
	}
}

// evidence is the value and where it comes from.
func (s setting) evidence() string {
	origin := map[string]string{
		sourceClient:         "asked for by the connection",
		sourceRoleInDatabase: "set for role " + s.role + " in database " + s.database,
		sourceRole:           "set for role " + s.role,
		sourceDatabase:       "set for database " + s.database,
		sourceAllRoles:       "set for all roles",
		"configuration file": "set in the server's configuration",
		"command line":       "set on the server's command line",
		"default":            "the default",
	}[s.source]
	if origin == "" {
		origin = "set by " + s.source
	}
	evidence := fmt.Sprintf("%s = %s, %s", s.name, s.value, origin)
	if s.node != "" {
		return "on node " + s.node + " " + evidence
	}
	return evidence
}

// fix is how to change the value where it comes from.
func (s setting) fix(value string) string {
	if node := s.node; node != "" {
		s.node = ""
		return "on node " + node + ": " + s.fix(value)
	}
	assign := fmt.Sprintf("SET %s = %s", s.name, value)
	switch s.source {
	case sourceClient:
		return "take " + s.name + " out of the connection's URL"
	case sourceRoleInDatabase:
		return "run: ALTER ROLE " + s.role + " IN DATABASE " + s.database + " " + assign
	case sourceRole:
		return "run: ALTER ROLE " + s.role + " " + assign
	case sourceDatabase:
		return "run: ALTER DATABASE " + s.database + " " + assign
	case sourceAllRoles:
		return "run: ALTER ROLE ALL " + assign
	case "command line":
		return fmt.Sprintf("start the server with %s = %s: its command line wins over postgresql.conf", s.name, value)
	default:
		return fmt.Sprintf("set %s = %s in postgresql.conf and reload the server", s.name, value)
	}
}
