package fakeprovider

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// object returns a JSON object of keys and values, in that order.
func object(pairs ...any) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(pairs[i].(string)))
		b.WriteByte(':')
		b.Write(encode(pairs[i+1]))
	}
	b.WriteByte('}')
	return b.Bytes()
}

// encode returns a value in JSON. What is JSON already stays as it is, valid or not.
func encode(v any) []byte {
	switch v := v.(type) {
	case json.RawMessage:
		return v
	case []json.RawMessage:
		return append(append([]byte{'['}, bytes.Join(asBytes(v), []byte{','})...), ']')
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // all that comes here can be encoded
	}
	return text
}

func asBytes(list []json.RawMessage) (b [][]byte) {
	for _, text := range list {
		b = append(b, text)
	}
	return b
}

// list returns a JSON array.
func list(items ...json.RawMessage) []json.RawMessage { return items }
