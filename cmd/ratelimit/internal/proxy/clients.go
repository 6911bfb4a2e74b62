package proxy

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"strings"
)

// Client is one who may ask.
type Client struct {
	Name  string
	Class string // of its calls; empty leaves it to the request
	Flow  string // of its calls; empty leaves it to the request
	token [sha256.Size]byte
}

// Clients are those who may ask. Nil is everybody who can connect.
type Clients struct{ all []Client }

// minToken is the least length of a token, in bytes.
const minToken = 16

// ReadClients reads a file of clients: a line for each, of its name, token, class and flow, with
// spaces or commas between them; the last two may be missing. Lines that begin with # are passed
// over. An error names the line, and has nothing of a token in it.
func ReadClients(r io.Reader) (*Clients, error) {
	clients := &Clients{}
	seen := make(map[[sha256.Size]byte]bool)
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Fields(line)
		if strings.Contains(line, ",") {
			fields = strings.Split(line, ",")
		}
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		switch {
		case len(fields) < 2 || len(fields) > 4 || fields[0] == "":
			return nil, fmt.Errorf("line %d: want a name, a token and, if you like, a class and a flow", number)
		case len(fields[1]) < minToken:
			return nil, fmt.Errorf("line %d: the token has less than %d characters", number, minToken)
		}
		client := Client{Name: fields[0], token: sha256.Sum256([]byte(fields[1]))}
		if seen[client.token] {
			return nil, fmt.Errorf("line %d: the token is that of another line", number)
		}
		seen[client.token] = true
		if len(fields) > 2 {
			client.Class = fields[2]
		}
		if len(fields) > 3 {
			client.Flow = fields[3]
		}
		clients.all = append(clients.all, client)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(clients.all) == 0 {
		return nil, fmt.Errorf("no client in it")
	}
	return clients, nil
}

// find returns the client of a token; nil for none. How long it takes tells nothing of the tokens.
func (c *Clients) find(token string) *Client {
	sum := sha256.Sum256([]byte(token))
	var found *Client
	for i := range c.all {
		if subtle.ConstantTimeCompare(sum[:], c.all[i].token[:]) == 1 {
			found = &c.all[i]
		}
	}
	return found
}
