// Package eventstreamtest makes messages of application/vnd.amazon.eventstream for the tests of
// package llmhttp and of its package eventstream.
package eventstreamtest

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// Header is a header of a message whose value is a string.
type Header struct{ Name, Value string }

// Message returns a message as it is sent.
func Message(payload string, headers ...Header) string {
	var h []byte
	for _, one := range headers {
		h = append(append(h, byte(len(one.Name))), one.Name...)
		h = append(binary.BigEndian.AppendUint16(append(h, 7), uint16(len(one.Value))), one.Value...)
	}
	return Raw(h, payload)
}

// Raw returns a message with headers as they are.
func Raw(headers []byte, payload string) string {
	m := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	m = binary.BigEndian.AppendUint32(m, uint32(len(headers)))
	m = binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m))
	m = append(append(m, headers...), payload...)
	return string(binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m)))
}

// Event returns an event of a name, as Bedrock sends it.
func Event(name, payload string) string {
	return Message(payload, Header{":event-type", name}, Header{":content-type", "application/json"}, Header{":message-type", "event"})
}

// Exception returns an exception of a name, as Bedrock sends it.
func Exception(name, message string) string {
	return Message(`{"message":"`+message+`"}`, Header{":exception-type", name},
		Header{":content-type", "application/json"}, Header{":message-type", "exception"})
}

// Chunks returns a stream of InvokeModelWithResponseStream: each text in base64 in an event.
func Chunks(texts ...string) string {
	var all strings.Builder
	for _, text := range texts {
		all.WriteString(Event("chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(text))+`","p":"abcdefgh"}`))
	}
	return all.String()
}
