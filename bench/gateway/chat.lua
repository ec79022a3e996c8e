-- What wrk asks, again and again: one body, from a file, with a key. Driven by load.py:
--     wrk … -s chat.lua URL -- BODY_FILE KEY
-- The last line that it prints is JSON: counts, percentiles in milliseconds, what went wrong.

function init(words)
  local file = assert(io.open(words[1], "rb"))
  wrk.method = "POST"
  wrk.body = file:read("*a")
  wrk.headers["Content-Type"] = "application/json"
  wrk.headers["Authorization"] = "Bearer " .. words[2]
  file:close()
  local request = wrk.format()
  wrk.request = function() return request end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %.6f, "bytes": %d, "p50_ms": %.3f, "p99_ms": %.3f, "bad_status": %d, '
      .. '"socket_errors": %d, "timeouts": %d}\n',
    summary.requests, summary.duration / 1e6, summary.bytes, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, errors.status, errors.connect + errors.read + errors.write, errors.timeout))
end
