#!lua flags=no-writes,allow-stale
-- The section of INFO for redis_exporter (-script lockstock.lua): redis_script_values{key="locks_held"} and so on.
-- The version is a number, as in MODULE LIST: 10203 for 1.2.3, and 0 on a server without the module.
local info = redis.call('INFO', 'lockstock')
local major, minor, patch = string.match(info, 'lockstock_version:(%d+)%.(%d+)%.(%d+)')
local values = {'version', tostring(major and major * 10000 + minor * 100 + patch or 0)}
for name, value in string.gmatch(info, 'lockstock_([%w_]+):(%d+)\r\n') do
    values[#values + 1] = name
    values[#values + 1] = value
end
return values
