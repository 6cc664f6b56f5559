package httpdedup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// The arguments of the call that a request makes. Two requests are the same if these are equal as
// JSON: requests.md has the rules. A client whose key comes with another request is told the names
// that differ: problems.md lists them. Names in capitals sort before the body's, so a record
// remembers them however many members the body has.
const (
	argMethod          = "Method"
	argHost            = "Host"
	argPath            = "Path"
	argQuery           = "Query"
	argContentEncoding = "Content-Encoding"
	argContentType     = "Content-Type"
	argBody            = "body"
	argMember          = "body."
)

// requestArgs returns the arguments of a request as JSON text, or refuses it.
func requestArgs(r *http.Request, body []byte, withHost bool) (json.RawMessage, error) {
	args := map[string]any{argMethod: r.Method, argPath: requestPath(r)}
	if withHost {
		args[argHost] = requestHost(r)
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(kindInvalidRequest, "The query is malformed. Escape it: a percent sign needs two hex digits behind it, and a semicolon is %3B.")
	}
	if len(query) > 0 {
		args[argQuery] = query.Encode()
	}
	if len(body) > 0 {
		if err := addBody(args, r.Header, body); err != nil {
			return nil, err
		}
	}
	return door.JSON(args)
}

// requestHost returns the host of a request in one spelling. Behind a proxy the scheme is unknown,
// so :443 is removed from http too, where no service uses it.
func requestHost(r *http.Request) string {
	host := strings.ToLower(r.Host)
	for _, port := range [...]string{":80", ":443"} {
		if name, found := strings.CutSuffix(host, port); found {
			return name
		}
	}
	return host
}

// requestPath returns the path as the client sent it and, if it differs, the path that arrived here
// too. http.StripPrefix and the like can remove the only difference between two requests, and other
// layers map one path to several.
func requestPath(r *http.Request) string {
	seen := r.URL.EscapedPath()
	sent, err := url.ParseRequestURI(r.RequestURI)
	if err != nil || sent.EscapedPath() == seen { // err: the request was made in this process
		return seen
	}
	return sent.EscapedPath() + " " + seen // neither has a space
}

func addBody(args map[string]any, header http.Header, body []byte) error {
	mediaType, isJSON, err := contentType(header["Content-Type"])
	if err != nil {
		return err
	}
	args[argContentType] = mediaType
	encoding, err := contentEncoding(header["Content-Encoding"])
	if err != nil {
		return err
	}
	if encoding != "" {
		args[argContentEncoding] = encoding
	}
	if !isJSON || encoding != "" {
		sum := sha256.Sum256(body)
		args[argBody] = hex.EncodeToString(sum[:])
		return nil
	}
	return addJSON(args, body)
}

// addJSON adds the body by its value. dedup reads it first and refuses JSON that two parsers may
// understand differently: an object's members are distinct only if no name occurs twice.
func addJSON(args map[string]any, body []byte) error {
	if _, err := dedup.FingerprintOf(json.RawMessage(body)); err != nil {
		return invalidBody(err)
	}
	if body = bytes.TrimLeft(body, " \t\r\n"); body[0] != '{' {
		args[argBody] = json.RawMessage(body)
		return nil
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(body, &members) // it is an object
	for name, value := range members {
		args[argMember+name] = value
	}
	return nil
}

// contentType returns the media type of a body, and whether it is JSON. The parameters of a JSON
// type are dropped: a charset has no meaning there.
func contentType(lines []string) (mediaType string, isJSON bool, err error) {
	if len(lines) == 0 || len(lines) == 1 && lines[0] == "" {
		return "", false, nil
	}
	malformed := refuse(kindInvalidRequest, "The Content-Type is malformed. Send one, such as application/json.")
	if len(lines) > 1 {
		return "", false, malformed
	}
	essence, params, err := mime.ParseMediaType(lines[0])
	if err != nil {
		return "", false, malformed
	}
	if essence == "application/json" || strings.HasSuffix(essence, "+json") {
		return essence, true, nil
	}
	if charset, ok := params["charset"]; ok {
		params["charset"] = strings.ToLower(charset)
	}
	if mediaType = mime.FormatMediaType(essence, params); mediaType == "" {
		return "", false, malformed
	}
	return mediaType, false, nil
}

// contentEncoding returns the encoding of a body, or "" if it has none.
func contentEncoding(lines []string) (string, error) {
	encoding := strings.ToLower(strings.Join(lines, ","))
	for i := range len(encoding) {
		if encoding[i] < ' ' || encoding[i] > '~' {
			return "", refuse(kindInvalidRequest, "The Content-Encoding is malformed. Leave it out, or send a name such as gzip.")
		}
	}
	if encoding == "identity" {
		return "", nil
	}
	return encoding, nil
}
