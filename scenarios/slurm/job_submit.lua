-- Jobs wait in the partition `queue`, whatever their users ask for, until an operator moves them.
-- Those that ask for a partition such as `gpu` wait in `queue-gpu`, if there is one.
function slurm_job_submit(job, partitions, user_id)
  local own = "queue-" .. (job.partition or "")
  job.partition = partitions[own] and own or "queue"
  return slurm.SUCCESS
end

-- Slurm lets only the owner of a job and operators change it.
function slurm_job_modify(changes, job, partitions, user_id)
  local is_owner = user_id == job.user_id and user_id ~= 0
  if is_owner and changes.partition ~= nil and not changes.partition:find("^queue") then
    slurm.log_user("only an operator moves jobs to another partition")
    return slurm.ERROR
  end
  return slurm.SUCCESS
end
